"""Reasoning, markup and answer are told apart in any pieces of text, released with their tokens, and resumed."""

from __future__ import annotations

from itertools import cycle
from typing import NamedTuple

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from inference_worker.worker.text.output_text import OutputText, Release
from inference_worker.worker.text.reasoning.markup import HARMONY, MARKUPS, ReasoningMarkup
from inference_worker.worker.text.reasoning.splitter import ReasoningSplitter, Section
from inference_worker.worker.text.tool_calls.call_parser import ToolCallParser
from inference_worker.worker.text.tool_calls.call_splitter import ToolCallSplitter
from inference_worker.worker.text.tool_calls.tool_style import MARKUPS as CALL_MARKUPS
from inference_worker.worker.text.tool_calls.tool_style import MarkupFamily
from router.messages import SamplingParams, TextOptions
from tests.fakes.thinking_text import END_THINK, THINK, thinking_tokenizer
from tests.inference_worker.worker.text.token_events import push_events

THINKING = next(each for each in MARKUPS if each.start == "<think>")
TOKENIZER = thinking_tokenizer()
PIECES = ["<think>", "</think>", "<th", "ink>", "\n", "a", "stop", "👍", "</thinking>", "<|end|>"]


def split(
    pieces: list[str], section: Section = Section.UNDECIDED, markup: ReasoningMarkup = THINKING
) -> tuple[str, str]:
    """Return the reasoning and the answer of a text that comes in these pieces."""
    splitter = ReasoningSplitter(markup, section, frozenset())
    answer = "".join(map(splitter.push, pieces))
    undecided = "".join(pieces)[: -len(answer)] if answer else "".join(pieces)
    splitter.finish()
    reasoning, taken = splitter.take(len("".join(pieces)))
    return reasoning, answer or undecided[taken:]


@pytest.mark.parametrize(
    ("text", "section", "expected"),
    [
        ("<think>\nhm\n</think>\n\nyes", Section.UNDECIDED, ("hm\n", "yes")),
        ("<think></think>yes", Section.UNDECIDED, ("", "yes")),
        ("no <think>hm</think>", Section.UNDECIDED, ("", "no <think>hm</think>")),
        ("\nhm</think>yes</think>", Section.REASONING, ("hm", "yes</think>")),
        ("hm <think> hm</think>yes", Section.REASONING, ("hm <think> hm", "yes")),
        ("hm</thi", Section.REASONING, ("hm</thi", "")),
        ("<thi", Section.UNDECIDED, ("", "<thi")),
        ("hm</think>\n", Section.REASONING, ("hm", "")),
        ("<think>x</think>", Section.ANSWER, ("", "<think>x</think>")),
        ("", Section.UNDECIDED, ("", "")),
    ],
)
def test_reasoning_is_before_the_answer_only(text: str, section: Section, expected: tuple[str, str]) -> None:
    assert split([text], section) == expected
    assert split([*text], section) == expected


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (
            "<|channel|>analysis<|message|>hm<|end|><|start|>assistant<|channel|>final<|message|>yes",
            ("hm", "yes"),
        ),
        (
            "<|channel|>analysis<|message|>a<|end|><|start|>assistant<|channel|>commentary<|message|>b<|end|>"
            "<|start|>assistant<|channel|>final<|message|>yes",
            ("ab", "yes"),
        ),
        ("<|channel|>final<|message|>yes", ("", "yes")),
        ("<|channel|>analysis<|message|>hm", ("hm", "")),
        ("<|channel|>anal", ("", "")),
    ],
)
def test_the_answer_is_the_message_of_the_final_channel(text: str, expected: tuple[str, str]) -> None:
    assert split([text], Section.HEADER, HARMONY) == expected
    assert split([*text], Section.HEADER, HARMONY) == expected


class Answer(NamedTuple):
    reasoning: str
    text: str
    ids: list[int]
    finish: str | None
    stopped_by: str | int | None


def encode(text: str) -> list[int]:
    ids: list[int] = []
    for part in text.split("<think>"):
        for inner in part.split("</think>"):
            ids += [*inner.encode(), END_THINK]
        ids[-1] = THINK
    return ids[:-1]


def run(
    ids: list[int], cuts: list[int], section: Section, stops: list[str], after: int = 0, *, calls: bool = False
) -> list[Release]:
    parser = ToolCallParser(CALL_MARKUPS[MarkupFamily.HERMES], {"f"}, several=True)
    output = OutputText(
        TOKENIZER,
        SamplingParams(seed=1, logprobs=0),
        TextOptions(stop=stops),
        ids[:after],
        ToolCallSplitter(parser, "job/0", frozenset()) if calls else None,
        reasoning=ReasoningSplitter(THINKING, section, frozenset()),
    )
    releases = push_events(output, ids, after, cuts, "length")
    assert output.reasoning_tokens <= len(ids)
    return releases


def joined(releases: list[Release]) -> Answer:
    end = releases[-1] if releases else None
    return Answer(
        "".join(release.reasoning for release in releases),
        "".join(release.text for release in releases),
        [id_ for release in releases for id_ in release.ids],
        None if end is None else end.finish,
        None if end is None else end.stopped_by,
    )


tokens = st.lists(st.sampled_from(PIECES), max_size=8).map(lambda pieces: encode("".join(pieces)))
cut_sizes = st.lists(st.integers(1, 7), min_size=1, max_size=4)
sections = st.sampled_from([Section.UNDECIDED, Section.REASONING, Section.ANSWER])
stop_lists = st.lists(st.sampled_from(["stop", "a", "<th", "think>"]), max_size=2)


@settings(max_examples=300)
@given(tokens, cut_sizes, sections, stop_lists, st.booleans())
def test_any_split_gives_the_same_result(
    ids: list[int], cuts: list[int], section: Section, stops: list[str], calls: bool
) -> None:
    whole = joined(run(ids, [len(ids) or 1], section, stops, calls=calls))
    releases = run(ids, cuts, section, stops, calls=calls)
    assert joined(releases) == whole
    have: list[int] = []
    for release in releases:
        assert release.start == len(have)
        assert [one.chosen.id for one in release.logprobs or []] == release.ids
        have += release.ids


@settings(max_examples=300)
@given(tokens, sections, stop_lists, st.booleans(), st.data())
def test_a_choice_resumes_in_reasoning_and_answer(
    ids: list[int], section: Section, stops: list[str], calls: bool, data: st.DataObject
) -> None:
    releases = run(ids, [1], section, stops, calls=calls)
    cut = data.draw(st.integers(0, max(0, len(releases) - 1)))
    delivered = sum(len(release.ids) for release in releases[:cut])
    if delivered < len(ids):
        assert joined(run(ids, [1], section, stops, delivered, calls=calls)) == joined(releases[cut:])


@settings(max_examples=200)
@given(tokens, st.sampled_from([Section.UNDECIDED, Section.REASONING]))
def test_the_split_text_is_that_of_the_whole(ids: list[int], section: Section) -> None:
    reasoning, answer, *_ = joined(run(ids, [3], section, []))
    text = b"".join(TOKENIZER.token_data(id_) for id_ in ids if id_ not in TOKENIZER.controls.ids).decode()
    assert (reasoning, answer) == split([text], section)


def test_stop_strings_are_looked_for_in_the_answer_only() -> None:
    answer = joined(run(encode("stop</think>go stop"), [1], Section.REASONING, ["stop"]))
    assert answer[:2] == ("stop", "go ")
    assert answer[3:] == ("stop", "stop")


def test_tool_calls_are_looked_for_in_the_answer_only() -> None:
    call = '<tool_call>{"name": "f", "arguments": {"a": 1}}</tool_call>'
    releases = run(encode(f"maybe {call}</think>\n\n{call}"), [3], Section.REASONING, [], calls=True)
    calls = [call for release in releases for call in release.calls or ()]
    assert joined(releases)[:2] == (f"maybe {call}", "")
    assert [each.name for each in calls if each.name] == ["f"]
    assert "".join(each.arguments for each in calls) == '{"a": 1}'


def test_text_that_an_earlier_attempt_sent_is_not_sent_again() -> None:
    """A worker that does not split reasoning may have sent a part of its markup."""
    ids = [*b"<thi", *b"nk>hm</th", *b"ink>yes"]
    assert joined(run(ids, [1], Section.UNDECIDED, [], after=4))[:2] == ("hm", "yes")
    assert joined(run(ids, [1], Section.UNDECIDED, [], after=13))[:2] == ("", "yes")


@pytest.mark.parametrize(
    ("text", "section", "count"),
    [
        ("<think>ab</think>c", Section.UNDECIDED, 4),
        ("ab</think>\nc", Section.REASONING, 3),
        ("ab", Section.REASONING, 2),
        ("ab", Section.UNDECIDED, 0),
        ("ab</think>", Section.ANSWER, 0),
    ],
)
def test_reasoning_tokens_are_counted_with_their_markup(text: str, section: Section, count: int) -> None:
    output = OutputText(
        TOKENIZER,
        SamplingParams(seed=1),
        TextOptions(),
        reasoning=ReasoningSplitter(THINKING, section, frozenset()),
    )
    push_events(output, encode(text), 0, [1], "length")
    assert output.reasoning_tokens == count


def test_the_markup_is_found_where_its_tokens_are_control_tokens() -> None:
    ids = TOKENIZER.encode_rendered(
        "<|channel|>analysis<|message|>hm<|end|><|start|>assistant<|channel|>final<|message|>yes<|start|>", "\ufdd0"
    )
    tokens = TOKENIZER.controls.ids_of(HARMONY.tokens)
    output = OutputText(
        TOKENIZER,
        SamplingParams(seed=1),
        TextOptions(),
        reasoning=ReasoningSplitter(HARMONY, Section.HEADER, tokens),
    )
    assert joined(push_events(output, ids, 0, [2], "length"))[:2] == ("hm", "yes")


@given(st.text("<think>\n/a", max_size=20), cut_sizes, sections)
def test_text_may_come_in_any_pieces(text: str, cuts: list[int], section: Section) -> None:
    pieces, at, sizes = [], 0, cycle(cuts)
    while at < len(text):
        pieces.append(text[at : at + next(sizes)])
        at += len(pieces[-1])
    assert split(pieces, section) == split([text], section)
