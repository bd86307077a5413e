"""Text and call deltas are released with their tokens: for any split, with stop strings, and after resumption."""

from __future__ import annotations

from typing import NamedTuple

from hypothesis import given, settings
from hypothesis import strategies as st

from inference_worker.tokenizer.tokenizer import Tokenizer
from inference_worker.worker.text.output_text import OutputText, Release
from inference_worker.worker.text.tool_calls.call_parser import ToolCallParser
from inference_worker.worker.text.tool_calls.call_splitter import ToolCallSplitter, call_id
from inference_worker.worker.text.tool_calls.tool_style import MARKUPS, MarkupFamily
from router.messages import SamplingParams, TextOptions, merge_tool_calls
from tests.fakes.counting_text import definition
from tests.inference_worker.worker.text.token_events import push_events


def _tokenizer() -> Tokenizer:
    """Return a tokenizer of bytes and a control token that begins calls."""
    described = definition()
    marker = {**described["added_tokens"][0], "id": 258, "content": "[TOOL_CALLS]"}
    vocabulary = {text: id_ for text, id_ in described["model"]["vocab"].items() if id_ < 258}
    described["model"]["vocab"] = vocabulary | {"[TOOL_CALLS]": 258}
    return Tokenizer({**described, "added_tokens": [*described["added_tokens"], marker]})


TOKENIZER = _tokenizer()
CALL = '{"name": "f", "arguments": {"a": "é👍", "b": [1]}}'
PIECES = [
    "[TOOL_CALLS]",
    f"[TOOL_CALLS][{CALL}, {CALL}]",
    'f[ARGS]{"a": 1}',
    f"[{CALL}]",
    '[{"name": "f", "argu',
    *'stop{}[],: \n"é👍x',
]


def encode(text: str) -> list[int]:
    """Return ids of `text`: the marker as its token, the rest as bytes."""
    ids: list[int] = []
    for part in text.split("[TOOL_CALLS]"):
        ids += [258, *part.encode()]
    return ids[1:]


tokens = st.lists(st.sampled_from(PIECES), max_size=8).map(lambda pieces: encode("".join(pieces)))


class Answer(NamedTuple):
    text: str
    calls: list[tuple[int, str, str, str]]
    ids: list[int]
    finish: str | None
    stopped_by: str | int | None


def run(ids: list[int], cuts: list[int], stops: list[str], *, several: bool = True, after: int = 0) -> list[Release]:
    calls = ToolCallSplitter(
        ToolCallParser(MARKUPS[MarkupFamily.MISTRAL], {"f"}, several=several), "job/0", frozenset({258})
    )
    options = TextOptions(stop=stops)
    output = OutputText(TOKENIZER, SamplingParams(seed=1, logprobs=0), options, ids[:after], calls)
    return push_events(output, ids, after, cuts, "stop")


def joined(releases: list[Release]) -> Answer:
    calls = merge_tool_calls(call for release in releases for call in release.calls or ())
    end = releases[-1] if releases else None
    return Answer(
        "".join(release.text for release in releases),
        [(call.index, call.id, call.name, call.arguments) for call in calls],
        [id_ for release in releases for id_ in release.ids],
        None if end is None else end.finish,
        None if end is None else end.stopped_by,
    )


cuts = st.lists(st.integers(1, 7), min_size=1, max_size=4)
stop_lists = st.lists(st.sampled_from(["stop", "x", "}]", '"a"', "👍"]), max_size=2)


@settings(max_examples=300)
@given(tokens, cuts, stop_lists, st.booleans())
def test_any_split_gives_the_same_result(ids: list[int], cuts: list[int], stops: list[str], several: bool) -> None:
    whole = joined(run(ids, [len(ids) or 1], stops, several=several))
    releases = run(ids, cuts, stops, several=several)
    assert joined(releases) == whole
    have: list[int] = []
    for release in releases:
        assert release.start == len(have)
        assert [one.chosen.id for one in release.logprobs or []] == release.ids
        have += release.ids
    assert have == ids[: len(have)]


@settings(max_examples=200)
@given(tokens, stop_lists, st.data())
def test_a_choice_resumes_in_the_middle_of_a_call(ids: list[int], stops: list[str], data: st.DataObject) -> None:
    releases = run(ids, [1], stops)
    cut = data.draw(st.integers(0, max(0, len(releases) - 1)))
    delivered = sum(len(release.ids) for release in releases[:cut])
    if delivered < len(ids):
        assert joined(run(ids, [1], stops, after=delivered)) == joined(releases[cut:])


def test_complete_calls_have_the_finish_reason_tool_calls() -> None:
    arguments = '{"a": "é👍", "b": [1]}'
    ids = encode(f"So [TOOL_CALLS][{CALL}, {CALL}]")
    ids_of_calls = [call_id("job/0", index) for index in (0, 1)]
    calls = [(index, id_, "f", arguments) for index, id_ in enumerate(ids_of_calls)]
    assert joined(run(ids, [3], [])) == Answer("So", calls, ids, "tool_calls", None)
    one = joined(run(ids, [3], [], several=False))
    assert (one.calls, one.finish) == (calls[:1], "tool_calls")
    assert one.ids == ids[: ids.index(ord(","), ids.index(ord("]")))]


def test_an_incomplete_call_does_not_change_the_finish_reason() -> None:
    for text in (CALL[:-9], CALL[:20]):
        assert joined(run(encode(f"[TOOL_CALLS][{text}"), [1], [])).finish == "stop"


def test_call_ids_are_distinct_and_deterministic() -> None:
    ids = {call_id(choice, index) for choice in ("a/0", "a/1", "b/0") for index in range(3)}
    assert len(ids) == 9
    assert call_id("a/0", 0) in ids
