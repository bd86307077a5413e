"""A stand-in for the gateway: scripted answers on `/v1`, and the real page beside them, on one origin."""

import asyncio
import json
import threading
from collections.abc import AsyncIterator, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
import uvicorn
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse, Response, StreamingResponse
from starlette.routing import Mount, Route

from chat_ui.app import create_app

DIST = Path(__file__).parents[2] / "chat_ui" / "web" / "dist"


@dataclass
class StubOpenAI:
    """What the next answers say, and what was asked. `ENDLESS` in a question streams until the client leaves."""

    answers: dict[str, str]
    key: str = "hr_live_stub"
    requests: list[dict[str, Any]] = field(default_factory=list)
    abandoned: threading.Event = field(default_factory=threading.Event)

    def app(self, dist: Path) -> Starlette:
        return Starlette(
            routes=[
                Route("/api/me", self._me),
                Route("/v1/models", self._models),
                Route("/v1/chat/completions", self._chat, methods=["POST"]),
                Mount("/", create_app(dist)),
            ]
        )

    async def _me(self, _request: Request) -> Response:
        user = {"id": "user-1", "email": "ada@example.org", "name": "Ada <img src=x onerror=window.__pwned=1>"}
        organisation = {"id": "org-1", "name": "<script>window.__pwned=1</script>"}
        where = {"organisation": organisation, "role": "owner", "project": "", "projects": []}
        return JSONResponse({"user": user, **where})

    async def _models(self, request: Request) -> Response:
        if request.headers["authorization"] != f"Bearer {self.key}":
            return _error(401, "invalid_api_key", "No such key: <img src=x onerror='window.__pwned=1'>")
        names = ["smollm2-135m-instruct", "stub/<img src=x onerror=window.__pwned=1>"]
        return JSONResponse({"object": "list", "data": [{"id": name, "object": "model"} for name in names]})

    async def _chat(self, request: Request) -> Response:
        body = await request.json()
        self.requests.append(body)
        question = body["messages"][-1]["content"]
        if question == "BUSY":
            return _error(503, "overloaded", "All workers are busy.", {"retry-after": "1"})
        stream = self._endless() if question == "ENDLESS" else _stream(self.answers[question])
        return StreamingResponse(stream, media_type="text/event-stream")

    async def _endless(self) -> AsyncIterator[str]:
        try:
            while True:
                yield _frame({"content": "more "})
                await asyncio.sleep(0.02)
        finally:
            self.abandoned.set()


async def _stream(answer: str) -> AsyncIterator[str]:
    yield ": ping\n\n"
    yield _frame({"role": "assistant", "content": ""})
    pieces = [answer[start : start + 5] for start in range(0, len(answer), 5)]
    for piece in pieces:
        yield _frame({"content": piece})
        await asyncio.sleep(0.004)
    yield _frame({}, finish_reason="stop")
    usage = {"prompt_tokens": 12, "completion_tokens": len(pieces), "total_tokens": 12 + len(pieces)}
    yield f"data: {json.dumps({'choices': [], 'usage': usage})}\n\ndata: [DONE]\n\n"


def _frame(delta: dict[str, str], finish_reason: str | None = None) -> str:
    choice = {"index": 0, "delta": delta, "finish_reason": finish_reason}
    return f"data: {json.dumps({'id': 'chatcmpl-1', 'choices': [choice], 'usage': None})}\n\n"


def _error(status: int, code: str, message: str, headers: dict[str, str] | None = None) -> JSONResponse:
    error = {"message": message, "type": "error", "param": None, "code": code}
    return JSONResponse({"error": error}, status, headers)


class StubServer(uvicorn.Server):
    """The stub in a thread, on a free port of this machine."""

    def __init__(self, app: Starlette) -> None:
        super().__init__(
            uvicorn.Config(app, host="127.0.0.1", port=0, log_level="warning", timeout_graceful_shutdown=1)
        )
        self.ready = threading.Event()
        self._thread = threading.Thread(target=self.run, name="stub-openai")

    async def startup(self, sockets: Any = None) -> None:
        await super().startup(sockets)
        self.ready.set()

    def __enter__(self) -> str:
        self._thread.start()
        if not self.ready.wait(20):
            raise TimeoutError("the stub server did not start")
        return f"http://127.0.0.1:{self.servers[0].sockets[0].getsockname()[1]}"

    def __exit__(self, *exc: object) -> None:
        self.should_exit = True
        self._thread.join(20)


@pytest.fixture
def stub() -> StubOpenAI:
    """The API that the page talks to in this test."""
    return StubOpenAI({"Hello": "Hi! I am **bold**.\n\n```python\nprint(1)\n```\n", "Again": "Second."})


@pytest.fixture
def origin(stub: StubOpenAI) -> Iterator[str]:
    """Where the stub and the built page are served."""
    if not (DIST / "index.html").is_file():
        pytest.skip("the chat page is not built (npm ci && npm run build in chat_ui/web)")
    with StubServer(stub.app(DIST)) as origin:
        yield origin
