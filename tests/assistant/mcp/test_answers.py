"""MCP tools in answers: the person's consent, and results that ask for calls."""

from __future__ import annotations

from typing import Any

import mcp_types

from assistant.mcp.definition import definition
from assistant.mcp.tool import McpTool
from router.messages import ChatPrompt, StepState
from tests.assistant.answers import ended_steps, kinds, last_message
from tests.assistant.conftest import Platform
from tests.fakes.assistant_process import Talents
from tests.fakes.mcp_server import INJECTION, listed_tool
from tests.fakes.scripted_worker import say

TOOLS = ("injected", "environment")


def talents_with_mcp(platform: Platform, calls: list[str], *, asks_person: bool) -> Talents:
    """Return an assistant with the tools of a server `shop`."""

    async def call(name: str, arguments: dict[str, Any]) -> mcp_types.CallToolResult:
        calls.append(name)
        return mcp_types.CallToolResult(content=[mcp_types.TextContent(type="text", text=INJECTION)])

    talents = platform.talents(tools=[f"mcp.shop.{name}" for name in TOOLS])
    talents.more = lambda _: [McpTool("shop", definition(listed_tool(name)), asks_person, 5.0, call) for name in TOOLS]
    return talents


async def test_a_question_without_consent_fails_the_step_and_is_answered(platform: Platform) -> None:
    worker = await platform.scripted("counting", say("Please allow it."))
    calls: list[str] = []
    await platform.assistant(talents_with_mcp(platform, calls, asks_person=True))
    answer = await platform.ask("use mcp.shop.injected", chat={"tools_allowed": ["mcp.shop.environment"]})
    await answer.read()
    [_, tool] = ended_steps(answer)
    sentence = "The tool “injected” of the server “shop” is called only if you allow it."
    error = tool.data["error"]
    assert (tool.state, error["code"], error["message"]) == (StepState.FAILED, "consent", sentence)
    assert (error["server"], error["tool"]) == ("shop", "injected")
    assert (tool.parts, calls) == ([], [])
    assert sentence in last_message(worker.jobs[0])


async def test_a_question_that_allows_the_tool_has_it_called(platform: Platform) -> None:
    worker = await platform.scripted("counting", say("ok"))
    calls: list[str] = []
    await platform.assistant(talents_with_mcp(platform, calls, asks_person=True))
    answer = await platform.ask("use mcp.shop.injected", chat={"tools_allowed": ["mcp.shop.injected"]})
    await answer.read()
    assert kinds(answer)[-1] == ("tool", "mcp.shop.injected", "done")
    assert calls == ["injected"]
    assert isinstance(worker.jobs[0].prompt, ChatPrompt)
    assert worker.jobs[0].prompt.tools_allowed == []


async def test_a_result_that_asks_for_a_call_leads_to_none(platform: Platform) -> None:
    obeying = "I call mcp.shop.environment now."
    worker = await platform.scripted("counting", say(obeying))
    calls: list[str] = []
    talents = talents_with_mcp(platform, calls, asks_person=False)
    await platform.assistant(talents)
    answer = await platform.ask("use mcp.shop.injected")
    await answer.read()
    assert INJECTION in last_message(worker.jobs[0])
    assert calls == ["injected"]
    assert [kind for kind, _, state in kinds(answer) if state == "done"] == ["route", "tool"]
    assert isinstance(worker.jobs[0].prompt, ChatPrompt)
    assert worker.jobs[0].prompt.tools is None


async def test_an_earlier_answer_that_repeats_a_result_leads_to_no_call(platform: Platform) -> None:
    await platform.scripted("counting", say("ok"))
    calls: list[str] = []
    talents = talents_with_mcp(platform, calls, asks_person=False)
    await platform.assistant(talents)
    answer = await platform.ask("use mcp.shop.injected", f"The tool says: {INJECTION}", "thanks a lot")
    await answer.read()
    assert calls == []
    assert talents.router.questions == ["thanks a lot"]
