"""Tracks the tool calls of MCP clients that run at this gateway, so that `notifications/cancelled` can end them.

Clients since 2026-07-28 cancel by closing the connection. The notification of older ones names a request of their
session; it ends the call if it reaches the gateway where the call runs, and else changes nothing, as the protocol
allows.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

from mcp_types.jsonrpc import INVALID_REQUEST

from gateway.mcp.messages import McpError, RequestId


class CallKey(NamedTuple):
    """Identity of a call: the API key, the session that `initialize` named, and the JSON-RPC request."""

    api_key: str
    session: str
    request: RequestId


class RunningToolCalls:
    """The running calls of one gateway by their identities."""

    def __init__(self) -> None:
        self._cancel: dict[CallKey, Callable[[], object] | None] = {}
        """What ends each call; `None`: its job is not submitted yet."""

    def add(self, key: CallKey) -> None:
        """Record one tool call before its job is submitted.

        Calls without a session are left out: their ids may be equal.

        Raises:
            McpError: A call of this identity runs.
        """
        if key in self._cancel:
            raise McpError(INVALID_REQUEST, "A call with this id is running in this session.", data={"param": "id"})
        if key.session:
            self._cancel[key] = None

    def submitted(self, key: CallKey, cancel: Callable[[], object]) -> None:
        """Record the function `cancel`, which ends the job of a recorded call; the job is submitted now."""
        if key in self._cancel:
            self._cancel[key] = cancel

    def remove(self, key: CallKey) -> None:
        """Remove one tool call that has ended."""
        self._cancel.pop(key, None)

    def cancel(self, key: CallKey) -> None:
        """End the job of one tool call; does nothing if the call has no job at this gateway."""
        if (cancel := self._cancel.get(key)) is not None:
            cancel()

    def __len__(self) -> int:
        return len(self._cancel)
