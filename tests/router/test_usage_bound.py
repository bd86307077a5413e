from __future__ import annotations

import json
from typing import Any

import msgspec
import pytest

from router.messages import (
    ChatPrompt,
    EmbeddingPrompt,
    ImagePrompt,
    Job,
    OwnToolCall,
    Prompt,
    PromptBounds,
    SamplingParams,
    ScorePrompt,
    TextOptions,
    TextPrompt,
    TokenisationPrompt,
    TokenPrompt,
    Usage,
    UsagePart,
)
from router.model_registry import ModelRegistry
from router.usage_bound import max_parts, max_usage
from tests.contract.examples import CALL, JOB, ROUTING, STATUS, WEATHER_TOOL, msgspec_replace

CONTEXT = 1000
BOUNDS = PromptBounds(per_byte=1, per_text=3, per_conversation=20, per_message=7, tools=50)
UNKNOWN = PromptBounds()


def job(prompt: Prompt, *, n: int = 1, cut: int | None = None, **sampling: Any) -> Job:
    return msgspec.structs.replace(
        JOB,
        prompt=prompt,
        n=n,
        sampling=SamplingParams(seed=1, **sampling),
        text=TextOptions(truncate_prompt_tokens=cut),
    )


def chat(*contents: Any, **fields: Any) -> ChatPrompt:
    return ChatPrompt(messages=[{"role": "user", "content": content} for content in contents], **fields)


def most(job: Job, bounds: PromptBounds = BOUNDS) -> tuple[int, int]:
    usage = max_usage(job, CONTEXT, bounds)
    return usage.prompt_tokens, usage.completion_tokens


def test_token_ids_are_counted_exactly() -> None:
    tokens = TokenPrompt([1] * 100)
    assert most(job(tokens)) == (100, 900)
    assert most(job(tokens, max_tokens=5)) == (100, 5)
    assert most(job(tokens, n=3, max_tokens=5), UNKNOWN) == (100, 15)


def test_images_are_counted_by_size() -> None:
    drawn = job(ImagePrompt(prompt="A lighthouse", size="1024x768"), n=2)
    assert max_usage(drawn, CONTEXT, BOUNDS) == Usage(prompt_tokens=0, units={"1024x768": 2})


def test_images_of_a_conversation_are_counted_by_the_workers_bound() -> None:
    content = [{"type": "text", "text": "ab"}, {"type": "image"}]
    bounds = msgspec.structs.replace(BOUNDS, per_image=64)
    assert most(job(chat(content, images=[b"1", b"2"]), max_tokens=5), bounds)[0] == 20 + 7 + 2 + 128
    assert most(job(chat(content, images=[b"1"] * 16), max_tokens=5), bounds)[0] == CONTEXT - 5


@pytest.mark.parametrize(
    ("prompt", "tokens"),
    [
        (ScorePrompt(contexts=["ab"], candidates=["c", "de"]), [2 + 1, 2 + 2]),
        (ScorePrompt(contexts=["ab", "c"], candidates=["c", "de"]), [2 + 1, 1 + 2]),
        (ScorePrompt(contexts=[[{"role": "user", "content": "ab"}]], candidates=["c"]), [2 + 1]),
    ],
)
def test_a_candidate_is_bounded_with_its_context(prompt: ScorePrompt, tokens: list[int]) -> None:
    around = BOUNDS.per_text + BOUNDS.per_conversation + 3 * BOUNDS.per_message
    assert most(job(prompt))[0] == sum(each + around for each in tokens)


def test_the_ends_of_steps_are_counted() -> None:
    one, three = (most(job(ScorePrompt(contexts=["q"], candidates=[["a" * n] * n])))[0] for n in (1, 3))
    assert three - one == 8 + 2 * 2 + 2 * BOUNDS.per_message
    assert most(job(ScorePrompt(contexts=["q"], candidates=["a\n\na\n\na"])))[0] == one + 6 + 2 * BOUNDS.per_message


def test_a_truncated_pair_is_bounded_by_what_is_kept() -> None:
    pair = ScorePrompt(contexts=["a" * 50], candidates=["b" * 50, "b"])
    assert most(job(pair, cut=20))[0] == 2 * 20


def test_a_text_is_bounded_by_its_bytes_and_added_tokens() -> None:
    assert most(job(TextPrompt("abcd"), max_tokens=5))[0] == 4 + 3 + 3
    assert most(job(TextPrompt("żółw"), max_tokens=5))[0] == 7 + 3 + 3
    assert most(job(TextPrompt("ab", "cd"), max_tokens=5))[0] == 4 + 3 + 3


@pytest.mark.parametrize(("form", "size"), [("", 3), ("NFD", 5), ("NFKC", 3), ("none of them", 3)])
def test_a_normal_form_may_be_longer(form: str, size: int) -> None:
    bounds = msgspec.structs.replace(BOUNDS, normal_form=form, per_text=0)
    assert most(job(TextPrompt("\u1e14"), max_tokens=5), bounds)[0] == size


@pytest.mark.timeout(60)
def test_texts_of_marks_only_do_not_take_minutes() -> None:
    bounds = msgspec.structs.replace(BOUNDS, normal_form="NFC", per_text=0)
    marks = "a" + "\u0327\u0301" * 200_000
    assert max_usage(job(TextPrompt(marks), max_tokens=5), 10**6, bounds).prompt_tokens >= len(marks.encode())


def test_a_conversation_includes_the_tokens_of_the_template() -> None:
    one = most(job(chat("abcd"), max_tokens=5))[0]
    assert 20 + 7 + 4 <= one <= 20 + 7 + 4
    two = most(job(chat("abcd", [{"type": "text", "text": "efg"}]), max_tokens=5))[0]
    assert one + 7 + 3 <= two <= one + 7 + 3 + 20


def test_tools_and_calls_are_counted_as_the_longest_json() -> None:
    tool = {"type": "function", "function": {"name": "f", "description": "ż" * 10, "parameters": {"type": "object"}}}
    call = {"id": "call_1", "type": "function", "function": {"name": "f", "arguments": '{"a":[1,2,{"b":3}]}'}}
    messages: list[dict[str, Any]] = [
        {"role": "user", "content": "x"},
        {"role": "assistant", "content": None, "tool_calls": [call]},
    ]
    prompt = ChatPrompt(messages=messages, tools=[tool])
    written = len(json.dumps([tool], indent=4)) + len(json.dumps([call], indent=4))
    written += len(json.dumps(json.loads(call["function"]["arguments"]), indent=4))  # type: ignore[index]
    assert most(job(prompt, max_tokens=5))[0] >= 20 + 14 + 50 + 1 + written


def test_nothing_is_larger_than_the_context() -> None:
    assert most(job(chat("x" * 5000))) == (CONTEXT, CONTEXT - 1)
    assert most(job(chat("x"), max_tokens=300), UNKNOWN) == (CONTEXT - 300, 300)
    assert most(job(chat("x" * 5000), max_tokens=5000))[1] == CONTEXT - 1
    deep: Any = []
    for _ in range(50):
        deep = [deep] * 2
    tools = [{"type": "function", "function": {"name": "f", "parameters": {"enum": deep}}}]
    assert most(job(chat("x", tools=tools), max_tokens=5))[0] == CONTEXT - 5


def test_a_truncated_prompt_is_bounded_by_the_kept_tokens() -> None:
    assert most(job(chat("x" * 500), cut=40, max_tokens=5)) == (40, 5)
    assert most(job(chat("x" * 5000), cut=-1, max_tokens=5)) == (CONTEXT - 5, 5)


def test_an_answer_without_a_limit_has_the_default_limit() -> None:
    assert most(job(chat("x"), n=2, default_max_tokens=100))[1] == 200
    assert most(job(chat("x"), default_max_tokens=5000))[1] == CONTEXT - 1
    assert most(job(TokenPrompt([1] * 990), default_max_tokens=100)) == (990, 10)
    assert most(job(TokenPrompt([1] * 990), max_tokens=0, default_max_tokens=100)) == (990, 0)


def test_embedding_inputs_are_summed() -> None:
    prompt = EmbeddingPrompt(inputs=["abcd", [1, 2, 3], "x" * 5000])
    assert max_usage(job(prompt), CONTEXT, BOUNDS) == Usage(prompt_tokens=7 + 3 + CONTEXT)
    assert max_usage(job(prompt), CONTEXT, UNKNOWN) == Usage(prompt_tokens=CONTEXT + 3 + CONTEXT)


def test_tool_arguments_that_are_not_json_are_counted_as_text() -> None:
    for arguments in ("{", "[" * 100_000, ""):
        call = {"id": "c", "type": "function", "function": {"name": "f", "arguments": arguments}}
        prompt = ChatPrompt(messages=[{"role": "assistant", "tool_calls": [call]}])
        assert most(job(prompt, max_tokens=5))[0] > 20


def test_a_call_of_a_chosen_tool_is_bound_by_that_tool_alone() -> None:
    registry = ModelRegistry(lambda: 0.0)
    image = UsagePart(model="painter", usage=Usage(prompt_tokens=0, units={"64x64": 1}))
    registry.observe(msgspec_replace(STATUS, parts=[ROUTING, CALL, image], tools=[WEATHER_TOOL]))
    model = registry.find(STATUS.model)
    assert model is not None
    call = job(chat("Łódź", own_tool_call=OwnToolCall(name="weather", arguments={"place": "Łódź"})))
    assert max_usage(call, CONTEXT, BOUNDS) == Usage(prompt_tokens=0)
    assert max_parts(call, model) == (CALL,)
    gone = job(chat("Łódź", own_tool_call=OwnToolCall(name="math")))
    assert max_parts(gone, model) == max_parts(job(chat("Łódź")), model) == (ROUTING, CALL, image)


def test_tokenising_uses_no_tokens() -> None:
    assert most(job(TokenisationPrompt(source=TextPrompt("a text")))) == (0, 0)
