"""Ends of continuations: at the separator, at a stop string or token, at the most tokens of a step or of the answer."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from inference_worker.engine_protocol import GenerationRequest, TokenEvent
from inference_worker.reasoning import ReasoningTokens
from inference_worker.search.events import Extend, Extended, Segment, SegmentEnd
from inference_worker.worker.search.continuations import Continuations
from router.messages import ChatPrompt, SamplingParams, Search, SearchMethod, TextOptions
from tests.fakes.counting_text import END, FIRST
from tests.fakes.fleet import shared_text
from tests.fakes.jobs import make_job
from tests.fakes.thinking_text import END_THINK, R1, thinking_text

PROMPT = [1, 2, 3]
ANSWER_TOKENS = 20
SEARCH = Search(method=SearchMethod.BEAM_SEARCH, n=1, budget_tokens=99, separator="7 8 ", verifier="v")


def ids(*numbers: int) -> list[int]:
    return [FIRST + number for number in numbers]


def continuations(
    count: int = 1, prefix: list[int] | None = None, *, most: int = 9, to_end: bool = False, **fields: Any
) -> Continuations:
    sampling = SamplingParams(seed=1, max_tokens=ANSWER_TOKENS, **fields.pop("sampling", {}))
    command = Extend(4, prefix or [], count, seed=99, max_tokens=most, to_end=to_end)
    job = make_job(search=fields.pop("search", SEARCH), sampling=sampling, text=TextOptions(**fields))
    request = GenerationRequest(id="a", prompt_ids=PROMPT, sampling=sampling, tenant="t", salt="s")
    return Continuations(command, job, request, "a/0", shared_text())


def event(tokens: list[int], choice: int = 0, **fields: Any) -> TokenEvent:
    return TokenEvent(request="a/0", choice=choice, position=0, token_ids=tokens, **fields)


def only_segment(continuations: Continuations) -> Segment:
    extended = continuations.ended()
    assert extended is not None
    [segment] = extended.segments
    return segment


def test_the_request_continues_the_path_with_the_seed_and_limit_of_the_command() -> None:
    request = continuations(3, ids(5, 6), most=7, sampling={"min_tokens": 4}).request
    assert (request.id, request.prompt_ids, request.n) == ("a/0", [*PROMPT, *ids(5, 6)], 3)
    assert (request.sampling.seed, request.sampling.max_tokens, request.sampling.min_tokens) == (99, 7, 2)
    assert (request.tenant, request.salt) == ("t", "s")


def test_a_rollout_is_not_sampled() -> None:
    command = Extend(4, [], 1, seed=99, max_tokens=9, to_end=False, greedy=True)
    sampling = SamplingParams(seed=1, max_tokens=ANSWER_TOKENS, temperature=0.8)
    request = GenerationRequest(id="a", prompt_ids=PROMPT, sampling=sampling, tenant="t", salt="s")
    tried = Continuations(command, make_job(search=SEARCH, sampling=sampling), request, "a/0", shared_text())
    assert tried.request.sampling.temperature == 0


@pytest.mark.parametrize("included", [True, False])
def test_a_separator_ends_a_continuation_and_belongs_to_it(included: bool) -> None:
    tried = continuations(include_stop_str_in_output=included)
    assert not tried.push(event(ids(6, 7)))
    assert tried.push(event(ids(8, 9)))
    assert only_segment(tried) == Segment(ids(6, 7, 8), "6 7 8 ", SegmentEnd.BOUNDARY)


def test_a_separator_may_begin_in_the_path_but_not_end_there() -> None:
    across, after = continuations(1, ids(6, 7)), continuations(1, ids(7, 8))
    assert across.push(event(ids(8)))
    assert only_segment(across) == Segment(ids(8), "8 ", SegmentEnd.BOUNDARY)
    assert not after.push(event(ids(9)))


@pytest.mark.parametrize("separator", ["7", "17", " 17"])
def test_text_after_the_separator_in_its_token_begins_the_next_step(separator: str) -> None:
    """As with ". " before a word: the space and the word are one token."""
    first = continuations(search=msgspec.structs.replace(SEARCH, separator=separator))
    assert first.push(event(ids(5, 175)))
    text = "5 175 "
    end = text.index(separator) + len(separator)
    assert only_segment(first) == Segment(ids(5, 175), text[:end], SegmentEnd.BOUNDARY)
    second = continuations(1, ids(5, 175), search=msgspec.structs.replace(SEARCH, separator=separator), most=1)
    assert second.push(event(ids(6), finish_reason="length"))
    assert only_segment(second).text == text[end:] + "6 "


def test_whole_answers_have_no_separator() -> None:
    tried = continuations(to_end=True)
    assert not tried.push(event(ids(7, 8)))
    assert tried.push(event([END], finish_reason="stop", stop_token=END))
    assert only_segment(tried) == Segment([*ids(7, 8), END], "7 8 ", SegmentEnd.STOP)


@pytest.mark.parametrize(("stop", "text"), [(["9 "], "6 "), (["6 9 "], ""), (["7 8 "], "6 9 ")])
def test_a_stop_string_of_the_request_ends_the_answer(stop: list[str], text: str) -> None:
    tried = continuations(stop=stop)
    assert tried.push(event(ids(6, 9, 7, 8)))
    segment = only_segment(tried)
    assert (segment.text, segment.end) == (text, SegmentEnd.STOP)


def test_a_stop_string_is_found_across_the_end_of_the_path() -> None:
    tried = continuations(1, ids(*range(30), 4), stop=["4 5 6 "])
    assert not tried.push(event(ids(5)))
    assert tried.push(event(ids(6)))
    assert only_segment(tried).end is SegmentEnd.STOP


@pytest.mark.parametrize(("prefix", "end"), [(15, SegmentEnd.FULL), (18, SegmentEnd.LENGTH)])
def test_the_most_tokens_of_a_step_or_of_the_answer(prefix: int, end: SegmentEnd) -> None:
    tried = continuations(1, ids(*range(100, 100 + prefix)), most=2)
    assert tried.push(event(ids(1, 2), finish_reason="length"))
    assert only_segment(tried) == Segment(ids(1, 2), "1 2 ", end)


@pytest.mark.parametrize(
    ("prefix", "tokens", "text"),
    [
        ([], [*b"so", END_THINK, *b"\n42"], "42"),
        ([*b"so"], [*b"!", END_THINK, *b"42"], "42"),
        ([*b"so", END_THINK], [*b"42"], "42"),
        ([], [*b"so"], ""),
    ],
)
def test_the_text_of_a_whole_answer_is_that_after_its_reasoning(
    prefix: list[int], tokens: list[int], text: str
) -> None:
    thinking, sampling = thinking_text(R1), SamplingParams(seed=1, max_tokens=ANSWER_TOKENS)
    prompt_ids = thinking.tokenizer.encode("<think>\n")
    limited = ReasoningTokens(end=[END_THINK], budget=5, forced=[END_THINK])
    request = GenerationRequest(id="a", prompt_ids=prompt_ids, sampling=sampling, reasoning=limited)
    command = Extend(4, prefix, 1, seed=99, max_tokens=len(tokens), to_end=True)
    job = make_job(prompt=ChatPrompt(messages=[]), search=SEARCH, sampling=sampling)
    tried = Continuations(command, job, request, "a/0", thinking)
    assert tried.push(event(tokens, finish_reason="length"))
    thinking.close()
    assert only_segment(tried).text == text
    rest = None if END_THINK in prefix else msgspec.structs.replace(limited, budget=5 - len(prefix))
    assert tried.request.reasoning == rest


def test_the_event_comes_once_all_have_ended_in_the_order_of_their_indexes() -> None:
    tried = continuations(2)
    assert tried.push(event(ids(1), choice=1, finish_reason="length"))
    assert tried.ended() is None
    assert tried.push(event(ids(2), choice=0, finish_reason="length"))
    segments = [Segment(ids(2), "2 ", SegmentEnd.FULL), Segment(ids(1), "1 ", SegmentEnd.FULL)]
    assert tried.ended() == Extended(4, segments)


def test_a_restarted_engine_continues_after_all_tokens_also_those_of_which_the_text_is_not_final() -> None:
    tried = continuations(2)
    assert tried.outstanding() == tried.request
    tried.push(event(ids(1, 7), choice=0))  # "7 " may become the separator
    tried.push(event(ids(7, 8), choice=1))
    expected = msgspec.structs.replace(tried.request, delivered=[ids(1, 7), ids(7, 8)], ended=[1])
    assert tried.outstanding() == expected
