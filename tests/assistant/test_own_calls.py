"""Calls of an assistant's own tools are no part of its answer; those of the client's functions are."""

from __future__ import annotations

from typing import Any

import pytest

from assistant.own_calls import OwnCalls
from router.messages import Delta, ToolCallDelta
from tests.fakes.assistant import NamedTool

TOOLS = [NamedTool("mcp.shop.image", "draws")]
BARK = {"type": "function", "function": {"name": "bark"}}


def delta(*calls: tuple[int, str], **fields: Any) -> Delta:
    parts = [ToolCallDelta(index=index, name=name, arguments="{}") for index, name in calls]
    return Delta(job_id="j", attempt_id="a", start=0, token_ids=[1], tool_calls=parts or None, **fields)


def kept(given: Delta) -> list[int]:
    return [call.index for call in given.tool_calls or ()]


def test_without_functions_of_the_client_every_call_is_left_out() -> None:
    calls = OwnCalls(TOOLS, [])
    assert kept(calls.left_out(delta((0, "mcp_shop_image"), (1, "made_up")))) == []
    assert calls.left_out(delta((0, ""), finish_reason="tool_calls")).finish_reason == "stop"


def test_all_parts_of_own_calls_are_left_out_beside_those_of_the_client() -> None:
    calls = OwnCalls(TOOLS, [BARK])
    assert kept(calls.left_out(delta((0, "mcp_shop_image"), (1, "bark")))) == [1]
    ended = calls.left_out(delta((0, ""), (1, ""), finish_reason="tool_calls"))
    assert (kept(ended), ended.finish_reason) == ([1], "tool_calls")


@pytest.mark.parametrize(("name", "reason"), [("mcp_shop_image", "stop"), ("bark", "tool_calls")])
def test_an_answer_that_ends_by_own_calls_alone_just_stops(name: str, reason: str) -> None:
    calls = OwnCalls(TOOLS, [BARK])
    assert calls.left_out(delta((0, name), finish_reason="tool_calls")).finish_reason == reason


def test_text_passes_as_it_is() -> None:
    said = delta(text="Hm", finish_reason="length")
    assert OwnCalls(TOOLS, [BARK]).left_out(said) == said
