"""Tool calls of MCP clients that run at this gateway, so that `notifications/cancelled` can end them.

Clients since 2026-07-28 cancel by closing the connection. The notification of older ones names a request of their
session; it ends the call if it reaches the gateway where the call runs, and else changes nothing, as the protocol
allows.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

from gateway.mcp.messages import RequestId


class CallKey(NamedTuple):
    """Identity of a call: the API key, the session that `initialize` named, and the JSON-RPC request."""

    api_key: str
    session: str
    request: RequestId


class RunningToolCalls:
    """The running calls of one gateway by their identities."""

    def __init__(self) -> None:
        self._cancel: dict[CallKey, Callable[[], object]] = {}

    def add(self, key: CallKey, cancel: Callable[[], object]) -> None:
        """Record a call, which `cancel` ends; a call without a session can't be told from others, and is left out."""
        if key.session:
            self._cancel[key] = cancel

    def remove(self, key: CallKey, cancel: Callable[[], object]) -> None:
        """Forget a call that has ended, unless another one has its identity now."""
        if self._cancel.get(key) is cancel:
            del self._cancel[key]

    def cancel(self, key: CallKey) -> None:
        """End a call, if it runs here."""
        if (cancel := self._cancel.get(key)) is not None:
            cancel()

    def __len__(self) -> int:
        return len(self._cancel)
