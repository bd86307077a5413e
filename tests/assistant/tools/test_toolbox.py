"""Toolbox: limits of time and size, cache, switches; every failure is a `ToolError`."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import replace
from typing import Any, ClassVar

import pytest

from assistant.tools import tool
from assistant.tools.sentences import Sentence
from assistant.tools.tool import ToolContext
from assistant.tools.toolbox import MAX_RESULT_BYTES, Toolbox

ENGLISH = ToolContext("acme", "user-1", "en")
POLISH = ToolContext("acme", "user-1", "pl")


class Echo:
    """Returns its argument; `behaviour` replaces that."""

    description = "Echo."
    parameters: ClassVar[dict[str, Any]] = {
        "type": "object",
        "properties": {"text": {"type": "string"}},
        "required": ["text"],
        "additionalProperties": False,
    }
    time_limit = 1.0

    def __init__(
        self,
        name: str = "echo",
        cache_seconds: float = 0.0,
        behaviour: Callable[[], Awaitable[dict[str, Any]]] | None = None,
    ) -> None:
        self.name = name
        self.cache_seconds = cache_seconds
        self.behaviour = behaviour
        self.calls = 0

    async def run(self, arguments: dict[str, Any], context: ToolContext) -> dict[str, Any]:
        self.calls += 1
        if self.behaviour is not None:
            return await self.behaviour()
        return {"type": "echo", "text": arguments["text"], "call": self.calls}

    def phrased(self, result: dict[str, Any]) -> str | None:
        raise NotImplementedError

    def for_model(self, result: dict[str, Any]) -> str:
        return str(result["text"])

    def from_question(self, question: str, language: str) -> dict[str, Any] | None:
        return {"text": question} if language == "en" else None


class Clock:
    now = 0.0

    def __call__(self) -> float:
        return self.now


async def test_a_result_comes_back() -> None:
    outcome = await Toolbox([Echo()]).run("echo", {"text": "hi"}, ENGLISH)
    assert outcome.result == {"type": "echo", "text": "hi", "call": 1}
    assert not outcome.cached


@pytest.mark.parametrize(
    "arguments", [{}, {"text": 1}, {"text": "a", "more": 1}, {"text": "\ud800"}, {"text": object()}]
)
async def test_wrong_arguments_do_not_reach_the_tool(arguments: dict[str, Any]) -> None:
    echo = Echo()
    with pytest.raises(tool.InvalidArguments):
        await Toolbox([echo]).run("echo", arguments, ENGLISH)
    assert echo.calls == 0


async def test_large_arguments_are_refused() -> None:
    with pytest.raises(tool.InvalidArguments):
        await Toolbox([Echo()]).run("echo", {"text": "x" * 20_000}, ENGLISH)


async def test_a_slow_tool_is_cancelled() -> None:
    cancelled = asyncio.Event()

    async def slow() -> dict[str, Any]:
        try:
            await asyncio.sleep(60)
        finally:
            cancelled.set()
        return {}

    echo = Echo(behaviour=slow)
    echo.time_limit = 0.01
    with pytest.raises(tool.Unavailable) as error:
        await Toolbox([echo]).run("echo", {"text": "hi"}, ENGLISH)
    assert "0.01 s" in error.value.message("pl")
    assert cancelled.is_set()


@pytest.mark.parametrize("failure", [ValueError("x"), TimeoutError(), KeyError("y"), RecursionError()])
async def test_failures_of_a_tool_are_typed(failure: Exception) -> None:
    async def fail() -> dict[str, Any]:
        raise failure

    with pytest.raises(tool.Unavailable) as error:
        await Toolbox([Echo(behaviour=fail)]).run("echo", {"text": "hi"}, ENGLISH)
    assert error.value.__cause__ is failure


async def test_errors_of_a_tool_pass_through() -> None:
    async def fail() -> dict[str, Any]:
        raise tool.NotFound

    with pytest.raises(tool.NotFound):
        await Toolbox([Echo(behaviour=fail)]).run("echo", {"text": "hi"}, ENGLISH)


async def test_a_call_can_be_cancelled() -> None:
    async def slow() -> dict[str, Any]:
        await asyncio.sleep(60)
        return {}

    call = asyncio.create_task(Toolbox([Echo(behaviour=slow)]).run("echo", {"text": "hi"}, ENGLISH))
    await asyncio.sleep(0.01)
    call.cancel()
    with pytest.raises(asyncio.CancelledError):
        await call


async def test_large_results_are_refused() -> None:
    async def large() -> dict[str, Any]:
        return {"type": "echo", "text": "x" * MAX_RESULT_BYTES}

    with pytest.raises(tool.TooLarge):
        await Toolbox([Echo(behaviour=large)]).run("echo", {"text": "hi"}, ENGLISH)


async def test_results_that_are_not_json_are_refused() -> None:
    async def wrong() -> dict[str, Any]:
        return {"type": object()}

    with pytest.raises(tool.Unavailable):
        await Toolbox([Echo(behaviour=wrong)]).run("echo", {"text": "hi"}, ENGLISH)


async def test_the_cache_is_per_organisation_arguments_and_language_and_ends() -> None:
    clock, echo = Clock(), Echo(cache_seconds=10)
    toolbox = Toolbox([echo], clock=clock)
    first = await toolbox.run("echo", {"text": "hi"}, ENGLISH)
    first.result["text"] = "changed by the caller"
    again = await toolbox.run("echo", {"text": "hi"}, ENGLISH)
    assert (again.cached, again.result["text"], echo.calls) == (True, "hi", 1)
    assert not (await toolbox.run("echo", {"text": "hi"}, POLISH)).cached
    assert not (await toolbox.run("echo", {"text": "hi"}, replace(ENGLISH, tenant="rival"))).cached
    assert not (await toolbox.run("echo", {"text": "ho"}, ENGLISH)).cached
    clock.now = 10.0
    assert not (await toolbox.run("echo", {"text": "hi"}, ENGLISH)).cached


async def test_failures_are_not_cached() -> None:
    async def fail() -> dict[str, Any]:
        raise tool.NotFound

    echo = Echo(cache_seconds=10, behaviour=fail)
    toolbox = Toolbox([echo])
    for _ in range(2):
        with pytest.raises(tool.NotFound):
            await toolbox.run("echo", {"text": "hi"}, ENGLISH)
    assert echo.calls == 2


async def test_switches() -> None:
    reason = Sentence("No internet.", "Brak internetu.")
    toolbox = Toolbox([Echo("a"), Echo("b"), Echo("c")], off={"b": reason, "weather": reason})
    assert [each.name for each in toolbox.available({"c"})] == ["a"]
    assert toolbox.reasons("pl") == {"b": "Brak internetu.", "weather": "Brak internetu."}
    for name, message in (("b", "No internet."), ("weather", "No internet."), ("c", "This tool is switched off.")):
        with pytest.raises(tool.ToolOff) as error:
            await toolbox.run(name, {"text": "hi"}, ENGLISH, off={"c"})
        assert error.value.message("en") == message
    with pytest.raises(tool.NotFound):
        await toolbox.run("d", {"text": "hi"}, ENGLISH)


def test_names_are_unique() -> None:
    with pytest.raises(ValueError, match="two tools"):
        Toolbox([Echo(), Echo()])


async def test_tools_are_added_and_switched_while_the_process_runs() -> None:
    toolbox = Toolbox([])
    toolbox.switch_off("echo", Sentence("{tool} is not there yet.", "Nie ma jeszcze {tool}."))
    assert toolbox.reasons("pl") == {"echo": "Nie ma jeszcze echo."}
    toolbox.add(Echo())
    with pytest.raises(tool.ToolOff, match="echo is not there yet"):
        await toolbox.run("echo", {"text": "a"}, ENGLISH)
    toolbox.switch_on("echo")
    toolbox.switch_on("echo")
    assert (await toolbox.run("echo", {"text": "a"}, ENGLISH)).result["text"] == "a"
    with pytest.raises(ValueError, match="two tools"):
        toolbox.add(Echo())


def test_arguments_are_checked_without_a_call() -> None:
    echo = Echo()
    toolbox = Toolbox([echo])
    toolbox.check("echo", {"text": "a"})
    toolbox.check("no such tool", {})
    for arguments in ({}, {"text": 1}, {"text": "a" * 20_000}):
        with pytest.raises(tool.InvalidArguments):
            toolbox.check("echo", arguments)
    assert echo.calls == 0
