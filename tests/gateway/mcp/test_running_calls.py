"""Running calls are cancelled by key, session and request together."""

from __future__ import annotations

from gateway.mcp.running_calls import CallKey, RunningToolCalls

KEY = CallKey("key-1", "session-1", 7)


def test_only_the_named_call_is_cancelled() -> None:
    calls, cancelled = RunningToolCalls(), list[str]()
    calls.add(KEY, lambda: cancelled.append("first"))
    calls.add(KEY._replace(session="session-2"), lambda: cancelled.append("other session"))
    calls.add(KEY._replace(api_key="key-2"), lambda: cancelled.append("other key"))
    calls.cancel(KEY._replace(request=8))
    calls.cancel(KEY)
    assert cancelled == ["first"]


def test_a_call_without_a_session_can_not_be_cancelled() -> None:
    calls = RunningToolCalls()
    calls.add(KEY._replace(session=""), lambda: None)
    assert len(calls) == 0


def test_an_ended_call_does_not_remove_a_later_one_of_the_same_identity() -> None:
    calls = RunningToolCalls()

    def first() -> None: ...

    def second() -> None: ...

    calls.add(KEY, first)
    calls.add(KEY, second)
    calls.remove(KEY, first)
    assert len(calls) == 1
    calls.remove(KEY, second)
    assert len(calls) == 0
