"""The chunks of a stream join to the whole answer, however its tokens are cut into deltas and batches."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Sequence
from types import SimpleNamespace
from typing import Any, cast

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gateway.answers.answer_parts import AnswerMetadata, AnswerOptions, CollectedChoice
from gateway.answers.chat_answer import ChatAnswer
from gateway.answers.completion_answer import CompletionAnswer
from gateway.jobs.generation import ChoiceDelta, Generation
from gateway.jobs.prompt_echo import EchoedPrompt
from router.messages import Delta, ServiceClass, TokenAlternative, TokenLogprob, Usage

HEAD = AnswerMetadata("id-1", 1_700_000_000, "model", ServiceClass.DEFAULT, "fp_1")
USAGE = Usage(prompt_tokens=3, completion_tokens=4)

texts = st.text("ab \n\u2028é👍", max_size=3)
logprobs = st.builds(
    TokenLogprob,
    st.builds(TokenAlternative, st.integers(0, 99), texts, st.floats(-50, 0)),
    st.lists(st.builds(TokenAlternative, st.integers(0, 99), texts, st.floats(-50, 0)), max_size=2),
)
tokens = st.lists(st.tuples(st.integers(0, 99), texts, logprobs), max_size=6)
"""The tokens of one choice: ids, texts and log probabilities."""


@st.composite
def prompts(draw: st.DrawFn) -> EchoedPrompt:
    rest = draw(st.lists(logprobs, max_size=4))
    ids = draw(st.lists(st.integers(0, 99), min_size=len(rest) + 1, max_size=len(rest) + 1))
    return EchoedPrompt(ids, draw(texts), draw(texts), rest, [1] * len(rest))


options = st.builds(
    AnswerOptions,
    logprobs=st.none() | st.integers(0, 2),
    echo=st.booleans(),
    token_ids=st.booleans(),
    tokens_as_ids=st.booleans(),
    usage=st.booleans(),
)


def deltas(choice: int, listed: Sequence[Any], cuts: list[int], options: AnswerOptions) -> list[ChoiceDelta]:
    """A choice's tokens in deltas of the sizes in `cuts` (repeated), the last with its end."""
    parts: list[ChoiceDelta] = []
    at, turn = 0, 0
    while at < len(listed) or not parts:
        part = listed[at : at + cuts[turn % len(cuts)]]
        delta = Delta(
            job_id="id-1",
            attempt_id="a",
            choice=choice,
            start=at,
            token_ids=[id_ for id_, _, _ in part],
            text="".join(text for _, text, _ in part),
            logprobs=[lp for _, _, lp in part] or None if options.logprobs is not None else None,
            finish_reason="stop" if at + len(part) >= len(listed) else None,
        )
        parts.append(ChoiceDelta(choice, delta))
        at, turn = at + len(part), turn + 1
    return parts


def collected(listed: Sequence[Any], options: AnswerOptions) -> CollectedChoice:
    ids, shown = [id_ for id_, _, _ in listed], [text for _, text, _ in listed]
    told = [lp for _, _, lp in listed] if options.logprobs is not None else []
    return CollectedChoice(text=shown, ids=ids, logprobs=told, finish_reason="stop")


def generation(batches: list[list[ChoiceDelta]], prompt: EchoedPrompt) -> Generation:
    """A generation that yields these batches."""
    given = SimpleNamespace(prompts=[prompt], usage=USAGE, parts=(), jobs=[None], finished=False)

    async def give() -> AsyncIterator[list[ChoiceDelta]]:
        for number, batch in enumerate(batches, 1):
            given.finished = number == len(batches)
            yield batch

    given.batches = give
    return cast(Generation, given)


async def chunks(events: AsyncIterator[str]) -> list[dict[str, Any]]:
    text = "".join([event async for event in events])
    return [json.loads(part.removeprefix("data: ")) for part in text.split("\n\n") if part]


def interleaved(choices: list[list[ChoiceDelta]], sizes: list[int]) -> list[list[ChoiceDelta]]:
    """The deltas of all choices in turn, in batches of `sizes` (repeated)."""
    most = max(map(len, choices))
    order = [choice[place] for place in range(most) for choice in choices if place < len(choice)]
    batches, at, turn = [], 0, 0
    while at < len(order):
        batches.append(order[at : at + sizes[turn % len(sizes)]])
        at, turn = at + len(batches[-1]), turn + 1
    return batches


cut_sizes = st.lists(st.integers(1, 3), min_size=1, max_size=3)


@settings(max_examples=150)
@given(st.lists(tokens, min_size=1, max_size=2), cut_sizes, cut_sizes, prompts(), options)
async def test_completions(
    choices: list[Any], cuts: list[int], sizes: list[int], prompt: EchoedPrompt, options: AnswerOptions
) -> None:
    answer = CompletionAnswer(HEAD, len(choices), options)
    whole = json.loads(answer.body([collected(each, options) for each in choices], [prompt], USAGE).model_dump_json())
    batches = interleaved([deltas(i, each, cuts, options) for i, each in enumerate(choices)], sizes)
    parts = await chunks(answer.events(generation(batches, prompt)))
    if options.usage:
        assert parts.pop()["usage"] == whole["usage"]
    joined = [{"index": i, "text": "", "logprobs": None, "finish_reason": None} for i in range(len(choices))]
    for part in parts:
        (choice,) = part["choices"]
        _join(joined[choice["index"]], choice, ("text", "token_ids", "prompt_token_ids"))
    assert joined == [_with_lists(choice) for choice in whole["choices"]]


@settings(max_examples=150)
@given(st.lists(tokens, min_size=1, max_size=2), cut_sizes, cut_sizes, prompts(), options, texts)
async def test_chat(
    choices: list[Any],
    cuts: list[int],
    sizes: list[int],
    prompt: EchoedPrompt,
    options: AnswerOptions,
    echoed_text: str,
) -> None:
    answer = ChatAnswer(HEAD, len(choices), options, str, echoed_text)
    whole = json.loads(answer.body([collected(each, options) for each in choices], prompt, USAGE).model_dump_json())
    batches = interleaved([deltas(i, each, cuts, options) for i, each in enumerate(choices)], sizes)
    parts = await chunks(answer.events(generation(batches, prompt)))
    if options.usage:
        assert parts.pop()["usage"] == whole["usage"]
    assert parts[0].get("prompt_token_ids") == whole.get("prompt_token_ids")
    assert [part["choices"][0]["index"] for part in parts[: len(choices)]] == list(range(len(choices)))
    joined: list[dict[str, Any]] = [{"text": "", "logprobs": None} for _ in choices]
    for part in parts:
        (choice,) = part["choices"]
        spoken = {**choice, "text": choice["delta"].get("content", "")}
        _join(joined[choice["index"]], spoken, ("text", "token_ids"))
    for choice, expected in zip(joined, whole["choices"], strict=True):
        assert choice["text"] == expected["message"]["content"]
        assert choice.get("token_ids", []) == expected.get("token_ids", [])
        content = (choice["logprobs"] or {"content": []})["content"]
        assert content == (expected["logprobs"] or {"content": []})["content"]
        assert choice["finish_reason"] == expected["finish_reason"]


THOUGHT = Delta(
    job_id="id-1",
    attempt_id="a",
    start=0,
    token_ids=[1, 2],
    reasoning="hm",
    text="so",
    logprobs=[TokenLogprob(TokenAlternative(1, "hm", -1.0), []), TokenLogprob(TokenAlternative(2, "so", -1.0), [])],
    finish_reason="stop",
)
THOUGHT_ONLY = msgspec.structs.replace(THOUGHT, text="", finish_reason="length")


@pytest.mark.parametrize(
    ("delta", "included", "expected"),
    [
        (THOUGHT, True, [{"reasoning_content": "hm"}, {"content": "so"}, {}]),
        (THOUGHT, False, [{"content": "so"}, {}]),
        (THOUGHT_ONLY, True, [{"reasoning_content": "hm"}, {}]),
        (THOUGHT_ONLY, False, [{}, {}]),
    ],
)
async def test_reasoning_comes_before_the_text_unless_the_client_leaves_it_out(
    delta: Delta, included: bool, expected: list[dict[str, str]]
) -> None:
    answer = ChatAnswer(HEAD, 1, AnswerOptions(logprobs=0, token_ids=True), str, includes_reasoning=included)
    parts = await chunks(answer.events(generation([[ChoiceDelta(0, delta)]], EchoedPrompt())))
    choices = [part["choices"][0] for part in parts[1:]]
    assert [choice["delta"] for choice in choices] == expected
    assert [id_ for choice in choices for id_ in choice.get("token_ids", [])] == [1, 2]
    assert len(choices[0]["logprobs"]["content"]) == 2


@pytest.mark.parametrize(("text", "content"), [("so", "so"), ("", None)])
@pytest.mark.parametrize("included", [True, False])
def test_a_message_that_ended_in_its_reasoning_has_null_content(text: str, content: str | None, included: bool) -> None:
    answer = ChatAnswer(HEAD, 1, AnswerOptions(), str, includes_reasoning=included)
    choice = CollectedChoice(text=[text], reasoning=["h", "m"], finish_reason="length")
    usage = Usage(prompt_tokens=1, completion_tokens=3, reasoning_tokens=2)
    body = json.loads(answer.body([choice], EchoedPrompt(), usage).model_dump_json())
    message = body["choices"][0]["message"]
    assert message["content"] == content
    assert message.get("reasoning_content") == ("hm" if included else None)
    assert body["usage"]["completion_tokens_details"]["reasoning_tokens"] == 2


def _join(joined: dict[str, Any], part: dict[str, Any], appended: tuple[str, ...]) -> None:
    for name in appended:
        if name in part:
            joined[name] = joined[name] + part[name] if name in joined else part[name]
    if part["logprobs"] is not None:
        lists = joined["logprobs"] = joined["logprobs"] or {}
        for name, values in part["logprobs"].items():
            lists[name] = (lists.get(name) or []) + (values or [])
    joined["finish_reason"] = part["finish_reason"] or joined.get("finish_reason")


def _with_lists(choice: dict[str, Any]) -> dict[str, Any]:
    """Replace empty lists by null, because a choice without tokens has no chunk."""
    if choice["logprobs"] is not None and not choice["logprobs"]["tokens"]:
        choice["logprobs"] = None
    return choice
