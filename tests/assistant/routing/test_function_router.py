"""The function way: calls are read, and the first visible text cancels the call or becomes the answer."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from assistant.model_port import ModelCallFailed, ModelPiece
from assistant.routing.function_router import MAX_TOKENS, FunctionRouter, has_room_for_calls
from assistant.routing.router import Choice
from assistant.turn import Turn
from router.messages import Grammar, GrammarKind, SamplingParams, ToolCallDelta, Usage
from tests.contract.examples import JOB, msgspec_replace
from tests.fakes.assistant import ScriptedModels, named_tools

USAGE = Usage(prompt_tokens=50, completion_tokens=9)


def call(name: str = "", arguments: str = "", index: int = 0) -> ModelPiece:
    return ModelPiece(tool_calls=[ToolCallDelta(index=index, name=name, arguments=arguments)])


def text(*parts: str) -> list[ModelPiece]:
    return [*(ModelPiece(text=part) for part in parts), ModelPiece(usage=USAGE)]


async def choose(models: ScriptedModels, *, answers: bool = False) -> Choice:
    router = FunctionRouter("m", answers)
    return await router.choose("and now?", [Turn("user", "hi"), Turn("assistant", "hello")], named_tools(), models)


async def test_a_call_is_read_to_its_end() -> None:
    pieces = [call("weather"), call(arguments='{"place": "Kra'), call(arguments='ków"}'), ModelPiece(usage=USAGE)]
    choice = await choose(ScriptedModels([pieces]))
    assert choice == Choice("weather", {"place": "Kraków"}, usage=USAGE)


async def test_the_model_gets_the_conversation_and_all_functions() -> None:
    models = ScriptedModels([text("hi")])
    await choose(models)
    (request,) = models.requests
    assert [message["content"] for message in request.messages] == ["hi", "hello", "and now?"]
    names = [each["function"]["name"] for each in request.tools]
    assert names == ["documents", "image", "math", "weather", "wikipedia", "answer_directly"]
    assert (request.max_tokens, request.temperature) == (MAX_TOKENS, 0.0)


async def test_the_first_text_cancels_the_call() -> None:
    models = ScriptedModels([text("Well", ",", " let", " me", " think")])
    assert (await choose(models)).tool is None
    assert models.closed_after == [1]


async def test_white_space_before_a_call_is_no_text() -> None:
    models = ScriptedModels([[ModelPiece(text="\n"), call("image", '{"prompt": "a cat"}')]])
    assert (await choose(models, answers=True)).tool == "image"


async def test_the_default_function_cancels_the_call() -> None:
    models = ScriptedModels([[call("answer_directly"), call(arguments="{"), call(arguments="}")]])
    assert await choose(models) == Choice(None)
    assert models.closed_after == [1]


async def test_where_router_and_answerer_are_one_model_the_stream_goes_on() -> None:
    models = ScriptedModels([text("\n", "Well", ", hello")])
    choice = await choose(models, answers=True)
    assert choice.tool is None
    assert models.closed_after == []
    assert (models.requests[0].max_tokens, models.requests[0].answers) == (None, True)
    assert choice.answer is not None
    pieces = [piece async for piece in choice.answer]
    assert [piece.text for piece in pieces] == ["\n", "Well", ", hello", ""]
    assert pieces[-1].usage == USAGE


@pytest.mark.parametrize("read", [0, 1, 2])
async def test_closing_the_answer_cancels_the_call(read: int) -> None:
    models = ScriptedModels([text("a", "b", "c")])
    choice = await choose(models, answers=True)
    assert choice.answer is not None
    for _ in range(read):
        await anext(choice.answer)
    await choice.answer.aclose()
    assert models.closed_after == [max(1, read)]


@pytest.mark.parametrize("arguments", ["", "{", "[1]", "null", "[" * 100_000])
async def test_invalid_arguments_are_left_to_the_tool(arguments: str) -> None:
    assert await choose(ScriptedModels([[call("math", arguments)]])) == Choice("math")


async def test_a_call_without_end_is_cut_off_and_billed() -> None:
    used = Usage(prompt_tokens=50, completion_tokens=MAX_TOKENS + 1)
    models = ScriptedModels([[call("math", "{"), ModelPiece(usage=used), call(arguments="1" * 1000)]])
    assert await choose(models, answers=True) == Choice("math", usage=used)
    assert models.closed_after == [2]


async def test_an_unknown_function_is_a_direct_answer() -> None:
    assert await choose(ScriptedModels([[call("rm", '{"place": "/"}')]])) == Choice(None)


async def test_only_the_first_call_counts() -> None:
    pieces = [call("math", '{"expression": "1"}'), call("image", '{"prompt": "a"}', index=1)]
    assert await choose(ScriptedModels([pieces])) == Choice("math", {"expression": "1"})


async def test_no_output_is_a_direct_answer() -> None:
    assert await choose(ScriptedModels([[]]), answers=True) == Choice(None)


async def test_a_failed_model_is_reported() -> None:
    with pytest.raises(ModelCallFailed):
        await choose(ScriptedModels())


async def test_cancelling_the_decision_cancels_the_call() -> None:
    models = ScriptedModels([[ModelPiece(text=" ")] * 3])

    class Waiting(ScriptedModels):
        async def generate(self, request):  # type: ignore[no-untyped-def]
            try:
                yield ModelPiece(text=" ")
                await asyncio.sleep(60)
            except asyncio.CancelledError:
                models.closed_after.append(1)
                raise

    task = asyncio.create_task(choose(Waiting()))
    await asyncio.sleep(0.01)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert models.closed_after == [1]


@pytest.mark.parametrize(
    ("limits", "has_room"),
    [
        ({}, True),
        ({"max_tokens": MAX_TOKENS}, True),
        ({"max_tokens": MAX_TOKENS - 1}, False),
        ({"default_max_tokens": MAX_TOKENS - 1}, False),
        ({"max_tokens": MAX_TOKENS, "default_max_tokens": 1}, True),
    ],
)
def test_a_call_needs_room_within_the_limits_of_the_answer(limits: dict[str, Any], has_room: bool) -> None:
    job = msgspec_replace(JOB, sampling=SamplingParams(seed=1, **limits))
    assert has_room_for_calls(job) is has_room
    assert not has_room_for_calls(msgspec_replace(job, grammar=Grammar(kind=GrammarKind.JSON_OBJECT)))


BARK = {"type": "function", "function": {"name": "bark", "parameters": {}}}


async def beside_function(*pieces: ModelPiece) -> Choice:
    router = FunctionRouter("m", answers=True, passed_on=[BARK])
    return await router.choose("and now?", [], named_tools(), ScriptedModels([list(pieces)]))


async def test_a_call_of_the_clients_function_is_the_answer() -> None:
    made = [call("bark", "{"), call(arguments="}"), ModelPiece(usage=USAGE)]
    choice = await beside_function(*made)
    assert (choice.tool, choice.usage) == (None, None)
    assert choice.answer is not None
    assert [piece async for piece in choice.answer] == made


async def test_a_call_of_a_tool_beside_the_clients_functions_is_a_choice() -> None:
    choice = await beside_function(call("weather", '{"place": "Łódź"}'), ModelPiece(usage=USAGE))
    assert choice == Choice("weather", {"place": "Łódź"}, usage=USAGE)
