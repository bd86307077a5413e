"""Running calls are cancelled by key, session and request together, and no other call may have their identity."""

from __future__ import annotations

import pytest
from mcp_types.jsonrpc import INVALID_REQUEST

from gateway.mcp.messages import McpError
from gateway.mcp.running_calls import CallKey, RunningToolCalls

KEY = CallKey("key-1", "session-1", 7)


def test_only_the_named_call_is_cancelled() -> None:
    calls, cancelled = RunningToolCalls(), list[CallKey]()
    keys = [KEY, *(KEY._replace(request=each) for each in (0, "", "7"))]
    for key in (*keys, KEY._replace(session="session-2"), KEY._replace(api_key="key-2")):
        calls.add(key)
        calls.submitted(key, lambda key=key: cancelled.append(key))  # type: ignore[misc]
    calls.cancel(KEY._replace(request=8))
    for key in keys:
        calls.cancel(key)
    assert cancelled == keys


def test_a_call_that_is_not_submitted_is_not_cancelled() -> None:
    calls = RunningToolCalls()
    calls.add(KEY)
    calls.cancel(KEY)
    assert len(calls) == 1


def test_a_call_without_a_session_can_not_be_cancelled() -> None:
    calls, cancelled = RunningToolCalls(), list[str]()
    key = KEY._replace(session="")
    for _ in range(2):
        calls.add(key)
        calls.submitted(key, lambda: cancelled.append("call"))
    calls.cancel(key)
    assert (len(calls), cancelled) == (0, [])


def test_an_identity_is_refused_while_a_call_of_it_runs() -> None:
    calls = RunningToolCalls()
    calls.add(KEY)
    with pytest.raises(McpError) as refused:
        calls.add(KEY)
    assert (refused.value.code, refused.value.data) == (INVALID_REQUEST, {"param": "id"})
    calls.remove(KEY)
    calls.add(KEY)
    assert len(calls) == 1
