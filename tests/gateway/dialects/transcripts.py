"""Transcripts of official clients of other vendors: what a client sends to a gateway, and what it gets.

`python -m tests.gateway.dialects.transcripts` writes the golden files from the clients that are installed. Review them:
a change is one of a client's, or one that clients will see.
"""

from __future__ import annotations

import asyncio
import json
import re
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, NamedTuple

from starlette.types import Message, Receive, Scope, Send

from router.messages import ToolCallDelta
from tests.fakes.scripted_worker import Script
from tests.gateway.conftest import Served, served
from tests.gateway.dialects.anthropic.test_answer import deltas

GOLDEN = Path(__file__).with_name("golden")

THINKING = {"reasoning": "Paris, then."}
TEXT = {"text": "Let me see."}
CALL = {"tool_calls": [ToolCallDelta(index=0, id="call_a", name="weather", arguments='{"city": "Paris"}')]}
WHOLE: Script = deltas(THINKING, TEXT, CALL, {"finish_reason": "tool_calls"})
"""An answer with thinking, text and a call."""


class Exchange(NamedTuple):
    """One request of a client and the response to it."""

    path: str
    request: Any
    response: list[str]

    def written(self) -> str:
        """As in the golden file: without what differs between two runs."""
        response = [_stable(line) for line in self.response]
        fields = {"path": self.path, "request": self.request, "response": response}
        return json.dumps(fields, indent=1, ensure_ascii=False) + "\n"


def _stable(line: str) -> str:
    line = re.sub(r"msg_[0-9a-f]{32}", "msg_1", line)
    line = re.sub(r'"created_at":"[^"]*"', '"created_at":"2026-11-26T12:00:00Z"', line)
    return re.sub(r'_duration":[0-9]+', '_duration":1', line)


class _Recorder:
    """ASGI application around a gateway that keeps each request and response."""

    def __init__(self, app: Any) -> None:
        self._app = app
        self.exchanges: list[Exchange] = []

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        sent, got = bytearray(), bytearray()

        async def received() -> Message:
            message = await receive()
            sent.extend(message.get("body", b""))
            return message

        async def answered(message: Message) -> None:
            got.extend(message.get("body", b""))
            await send(message)

        await self._app(scope, received, answered)
        lines = [line for line in got.decode().splitlines() if line and not line.startswith(":")]
        self.exchanges.append(Exchange(scope["path"], json.loads(sent) if sent else None, lines))


@asynccontextmanager
async def recorded(script: Script = WHOLE) -> AsyncIterator[tuple[Served, list[Exchange]]]:
    """A gateway on a port whose exchanges are kept."""
    async with served(script, shutdown_grace=0.0) as server:
        app = server.stage.app
        recorder = _Recorder(app.middleware_stack or app.build_middleware_stack())
        app.middleware_stack = recorder
        yield server, recorder.exchanges


async def record(use: Callable[[Served], Awaitable[object]], script: Script = WHOLE) -> Exchange:
    """Return what a client exchanges with a gateway whose worker runs `script`."""
    async with recorded(script) as (server, exchanges):
        await use(server)
        [exchange] = exchanges
        return exchange


async def _write() -> None:
    from tests.gateway.dialects.test_transcripts import TRANSCRIPTS

    for name, use in TRANSCRIPTS.items():
        (GOLDEN / f"{name}.json").write_text((await record(use)).written(), encoding="utf-8")


if __name__ == "__main__":
    asyncio.run(_write())
