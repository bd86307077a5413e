"""A stub of the chat API for tests of the page: scripted answers, conversations in memory, a user always signed in."""

from __future__ import annotations

import asyncio
import itertools
import json
import time
from collections.abc import AsyncIterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from starlette.applications import Starlette
from starlette.datastructures import MutableHeaders
from starlette.requests import Request
from starlette.responses import JSONResponse, Response, StreamingResponse
from starlette.routing import Mount, Route
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from chat_ui.http.cookies import CSRF
from chat_ui.http.page import create_app

ENDLESS, BUSY = "ENDLESS", "BUSY"
"""Questions whose answers run until stopped, or fail with `Retry-After: BUSY_SECONDS`."""
BUSY_SECONDS = 60
HOSTILE_NAME = "<img src=x onerror=window.__pwned=1>"
SETTINGS: dict[str, Any] = {
    "model": "",
    "system": "",
    "temperature": None,
    "top_p": None,
    "repetition_penalty": None,
    "max_tokens": None,
    "tools_off": [],
    "tools_allowed": [],
    "test_time_compute": None,
    "vector_stores": [],
}
PIECE = 5
"""Characters of a text event."""


@dataclass
class AnswerInProgress:
    """An answer in progress, shared by its readers."""

    message: dict[str, Any]
    changed: asyncio.Condition = field(default_factory=asyncio.Condition)
    stopped: bool = False

    async def put_step(self, step: dict[str, Any]) -> None:
        async with self.changed:
            others = [each for each in self.message["steps"] if each["number"] != step["number"]]
            self.message["steps"] = [*others, step]
            self.message["state"] = "running"
            self.changed.notify_all()

    async def add(self, text: str) -> None:
        async with self.changed:
            self.message["text"] += text
            self.message["state"] = "running"
            self.changed.notify_all()

    async def end(self, **changes: Any) -> None:
        async with self.changed:
            self.message.update(changes)
            self.changed.notify_all()

    @property
    def ended(self) -> bool:
        return self.message["state"] not in ("waiting", "running")


@dataclass
class StubChat:
    """Configures the next answers, and records requests and conversations."""

    answers: dict[str, str] = field(default_factory=dict)
    steps: dict[str, list[dict[str, Any]]] = field(default_factory=dict)
    """Steps before the answers, by question; each replaces an earlier one of its number."""
    step_pause: float = 0.004
    """Seconds after each step."""
    images: dict[str, bytes] = field(default_factory=dict)
    """PNG files by blob id."""
    models: tuple[str, ...] = ("smollm2-135m-instruct",)
    tools: tuple[str, ...] = ()
    """Tools of all models."""
    pause: float = 0.004
    """Seconds between two text events."""
    piece: int = PIECE
    asked: list[dict[str, Any]] = field(default_factory=list)
    resumed: list[str] = field(default_factory=list)
    """The `Last-Event-ID` of every resumed stream."""
    breaks: int = 0
    """Number of streams that break after at most three events, before the answer's end."""
    conversations: dict[str, dict[str, Any]] = field(default_factory=dict)
    writing: dict[str, AnswerInProgress] = field(default_factory=dict)
    _ids: itertools.count[int] = field(default_factory=itertools.count)
    _tasks: set[asyncio.Task[None]] = field(default_factory=set)

    def app(self, dist: Path) -> Starlette:
        one = "/api/conversations/{id}"
        return Starlette(
            routes=[
                Route("/api/me", self._me),
                Route("/api/models", self._models),
                Route("/api/presets", self._presets),
                Route("/api/conversations", self._list),
                Route("/api/conversations", self._create, methods=["POST"]),
                Route(one, self._one, methods=["GET", "PATCH", "DELETE"]),
                Route(one + "/messages", self._ask, methods=["POST"]),
                Route(one + "/messages/{message}/regenerate", self._regenerate, methods=["POST"]),
                Route(one + "/messages/{message}/stop", self._stop, methods=["POST"]),
                Route(one + "/messages/{message}/events", self._events),
                Route(one + "/share", self._share, methods=["POST", "DELETE"]),
                Route("/api/shared/{token}", self._shared),
                Route("/v1/blobs/{blob}", self._blob),
                Mount("/", _signed_in(create_app(dist))),
            ]
        )

    def add(self, title: str, updated: float, **more: Any) -> dict[str, Any]:
        """Add an existing conversation without messages."""
        identity = f"conv_{next(self._ids)}"
        conversation: dict[str, Any] = {"id": identity, "title": title, "created": updated, "updated": updated}
        conversation |= {"pinned": False, "archived": False, "shared": False, "running": False, "match": None}
        conversation |= {"model": self.models[0], "settings": SETTINGS, "leaf": None, "messages": []}
        self.conversations[identity] = conversation | more
        return self.conversations[identity]

    async def _me(self, _request: Request) -> Response:
        user = {"id": "user_1", "email": "ada@example.org", "name": f"Ada {HOSTILE_NAME}"}
        organisation = {"id": "org_1", "name": HOSTILE_NAME}
        where = {"organisation": organisation, "role": "owner", "project": "", "projects": [], "operator": True}
        return JSONResponse({"user": user, **where})

    async def _models(self, _request: Request) -> Response:
        price = {"input_nano": 100, "cached_input_nano": 50, "output_nano": 400}
        common = {"context": 8192, "price": price, "ready": True, "tools": list(self.tools), "reads_images": False}
        common["searches"] = False
        models = [{"id": name, **common} for name in self.models]
        search = {"verifiers": [], "max_tokens": 131_072, "answer_tokens": 4096}
        return JSONResponse({"models": models, "search": search})

    async def _presets(self, _request: Request) -> Response:
        return JSONResponse({"presets": []})

    async def _list(self, request: Request) -> Response:
        query, archived = request.query_params.get("q", "").lower(), request.query_params.get("archived") == "true"
        rows = [
            row for row in self.conversations.values() if row["archived"] == archived and query in row["title"].lower()
        ]
        rows.sort(key=lambda row: (not row["pinned"], -row["updated"]))
        start, limit = int(request.query_params.get("cursor", 0)), int(request.query_params.get("limit", 50))
        shown = [_row(row) | {"match": f"… {row['title']} …" if query else None} for row in rows[start : start + limit]]
        following = str(start + limit) if start + limit < len(rows) else None
        return JSONResponse({"conversations": shown, "next": following, "total": len(rows) if query else None})

    async def _create(self, request: Request) -> Response:
        body = await request.json()
        return JSONResponse(_row(self.add("", time.time(), settings=SETTINGS | body["settings"])), 201)

    async def _one(self, request: Request) -> Response:
        conversation = self.conversations.get(request.path_params["id"])
        if conversation is None:
            return _error(404, "not_found", "There is no such conversation.")
        if request.method == "DELETE":
            del self.conversations[conversation["id"]]
            return Response(status_code=204)
        if request.method == "PATCH":
            conversation.update(await request.json())
            return JSONResponse(_row(conversation))
        return JSONResponse(conversation)

    async def _ask(self, request: Request) -> Response:
        conversation, body = self.conversations[request.path_params["id"]], await request.json()
        self.asked.append(body)
        conversation["model"] = body["settings"]["model"]
        files = [{"name": file["name"], "size": len(file["text"])} for file in body["attachments"]]
        question = self._message(conversation, body["parent"], "user", body["text"], attachments=files, state="done")
        return JSONResponse({"question": question, "answer": self._begin(conversation, question)}, 202)

    async def _regenerate(self, request: Request) -> Response:
        conversation = self.conversations[request.path_params["id"]]
        old = _find(conversation, request.path_params["message"])
        return JSONResponse({"answer": self._begin(conversation, _find(conversation, old["parent"]))}, 202)

    async def _stop(self, request: Request) -> Response:
        writing = self.writing[request.path_params["message"]]
        writing.stopped = True
        return JSONResponse({"answer": writing.message}, 202)

    async def _share(self, request: Request) -> Response:
        self.conversations[request.path_params["id"]]["shared"] = request.method == "POST"
        if request.method == "DELETE":
            return Response(status_code=204)
        return JSONResponse({"token": request.path_params["id"]})

    async def _shared(self, request: Request) -> Response:
        conversation = self.conversations.get(request.path_params["token"])
        if conversation is None or not conversation["shared"]:
            return _error(404, "not_found", "There is no such conversation.")
        return JSONResponse({name: conversation[name] for name in ("title", "created", "updated", "messages")})

    async def _events(self, request: Request) -> Response:
        seen = int(request.headers.get("last-event-id", "0"))
        if seen:
            self.resumed.append(str(seen))
        stream = _follow(self.writing[request.path_params["message"]], seen)
        if self.breaks:
            self.breaks -= 1
            stream = _broken(stream, 3)
        return StreamingResponse(stream, media_type="text/event-stream")

    async def _blob(self, request: Request) -> Response:
        return Response(self.images[request.path_params["blob"]], media_type="image/png")

    def _message(
        self, conversation: dict[str, Any], parent: str | None, role: str, text: str, **more: Any
    ) -> dict[str, Any]:
        message = {"id": f"msg_{next(self._ids)}", "parent": parent, "role": role, "text": text, "created": time.time()}
        answered = (
            "model",
            "settings",
            "error",
            "finish_reason",
            "usage",
            "cost_nano",
            "seconds",
            "first_token_seconds",
        )
        message |= dict.fromkeys(answered) | {"attachments": [], "images": [], "steps": []} | more
        conversation["messages"].append(message)
        conversation["leaf"] = message["id"]
        return message

    def _begin(self, conversation: dict[str, Any], question: dict[str, Any]) -> dict[str, Any]:
        model = conversation["model"]
        answer = self._message(conversation, question["id"], "assistant", "", model=model, state="waiting")
        self.writing[answer["id"]] = AnswerInProgress(answer)
        task = asyncio.create_task(self._write(self.writing[answer["id"]], question["text"]))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        return dict(answer)

    async def _write(self, writing: AnswerInProgress, question: str) -> None:
        if question == BUSY:
            error = {"code": "overloaded", "message": "All workers are busy.", "retry_after": BUSY_SECONDS}
            await writing.end(state="failed", error=error)
            return
        for step in self.steps.get(question, []):
            await writing.put_step(step)
            began = time.monotonic()
            while time.monotonic() < began + self.step_pause and not writing.stopped:
                await asyncio.sleep(0.001)
        text = "more " if question == ENDLESS else self.answers[question]
        starts = itertools.repeat(0) if question == ENDLESS else iter(range(0, len(text), self.piece))
        began, written = time.monotonic(), 0
        for start in starts:
            if writing.stopped:
                break
            await writing.add(text[start : start + self.piece])
            written += 1
            await asyncio.sleep(self.pause)
        usage = {"prompt_tokens": 12, "cached_tokens": 0, "completion_tokens": written}
        took = {"seconds": time.monotonic() - began, "first_token_seconds": 0.001, "cost_nano": 400 * written}
        state = "stopped" if writing.stopped else "done"
        await writing.end(state=state, finish_reason="stop", usage=usage, **took)


async def _follow(writing: AnswerInProgress, seen: int) -> AsyncIterator[str]:
    """Yield changes of the text after the first `seen` characters, and the end."""
    yield ": ping\n\n"
    if writing.message["state"] == "waiting":
        yield _frame("waiting", {"position": 2, "seconds": 3.0}, seen)
    told: list[dict[str, Any]] = []
    while True:
        steps = writing.message["steps"]
        for step in steps:
            if step not in told:
                yield _frame("step", {"step": step}, seen)
        told = steps
        text, ended = writing.message["text"], writing.ended
        if len(text) > seen:
            yield _frame("text", {"at": seen, "text": text[seen:]}, len(text))
            seen = len(text)
        if ended:
            yield _frame("failed" if writing.message["error"] else "done", {"message": writing.message}, seen)
            return
        async with writing.changed:
            if len(writing.message["text"]) == seen and writing.message["steps"] is told and not writing.ended:
                await writing.changed.wait()


async def _broken(stream: AsyncIterator[str], most: int) -> AsyncIterator[str]:
    """Yield the first `most` events, but never the last one, so that even a late reader sees the stream break."""
    following = await anext(stream)
    for _ in range(most):
        event = following
        try:
            following = await anext(stream)
        except StopAsyncIteration:
            return
        yield event


def _frame(event: str, data: Mapping[str, Any], identity: int) -> str:
    return f"id: {identity}\nevent: {event}\ndata: {json.dumps(data)}\n\n"


def _row(conversation: Mapping[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in conversation.items() if name not in ("messages", "leaf", "settings")}


def _find(conversation: Mapping[str, Any], message: str) -> dict[str, Any]:
    found: dict[str, Any] = next(one for one in conversation["messages"] if one["id"] == message)
    return found


def _signed_in(page: ASGIApp) -> ASGIApp:
    """Return `page` with the cookie by which it sees that there is a session."""

    async def app(scope: Scope, receive: Receive, send: Send) -> None:
        async def send_with_cookie(message: Message) -> None:
            if message["type"] == "http.response.start":
                MutableHeaders(scope=message).append("set-cookie", f"{CSRF}=token; path=/")
            await send(message)

        await page(scope, receive, send_with_cookie)

    return app


def _error(status: int, code: str, message: str) -> Response:
    return JSONResponse({"error": {"message": message, "type": "error", "param": None, "code": code}}, status)
