"""Clients of the chat API, over in-memory stores and a scripted model client."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from fastapi import FastAPI

from auth_billing.access.roles import Role
from chat_ui.http.api import create_api
from chat_ui.importing.frames import ParseFile
from tests.chat_ui.browser_client import HTTPS, Browser
from tests.fakes.audit_log import ListAuditLogStore
from tests.fakes.chat import ChatHouse
from tests.fakes.scripted_engine import MODEL
from tests.fakes.sessions import ORGANISATION, PeopleFixture

SETTINGS: dict[str, Any] = {"model": MODEL}


async def eventually(condition: Callable[[], bool]) -> None:
    """Let other tasks run until `condition` is true."""
    async with asyncio.timeout(30):
        while not condition():
            await asyncio.sleep(0.005)


class Scene:
    """A chat with one gateway (`gateway` adds more), and signed-in users."""

    def __init__(self, parse_file: ParseFile | None = None, storage_bytes: int = 2**30) -> None:
        self.people = PeopleFixture()
        self.audit = ListAuditLogStore()
        self.chats = ChatHouse(storage_bytes=storage_bytes)
        self.parse_file = parse_file
        self.chats.organisation.users = self.people.users
        self.chats.organisation.memberships = self.people.memberships
        self.chats.organisation.accounts = self.people.accounts
        self.apps: list[FastAPI] = []
        self.app = self.gateway()
        self.engine = self.chats.engine

    def gateway(self) -> FastAPI:
        """Add a gateway on the same stores."""
        app = create_api(self.chats.chat(self.people.process(), self.audit, self.parse_file))
        self.apps.append(app)
        return app

    async def person(self, role: Role = Role.MEMBER, name: str = "", organisation: str = ORGANISATION) -> Person:
        """Return a signed-in user with this role and an own network address."""
        browser = Browser(self.app, HTTPS, f"10.1.{len(self.people.users.users)}.1")
        token = await self.people.invite(role, organisation)
        assert (await browser.sign_up(token, name or role.value)).status_code == 200
        return Person(browser)

    async def close(self) -> None:
        for app in self.apps:
            await app.state.services.generations.close()
            await app.state.services.importer.close()
        self.people.passwords.close()


class Person:
    """A signed-in user of the chat."""

    def __init__(self, browser: Browser) -> None:
        self.browser = browser

    async def call(self, method: str, path: str, body: Any = None, *, status: int = 200) -> Any:
        """Call a route, require the status, and return the response's JSON."""
        sent = self.browser.get(path) if method == "GET" else self.browser.send(method, path, body)
        response = await sent
        assert response.status_code == status, response.text
        return response.json() if response.content else None

    async def conversation(self, **settings: Any) -> str:
        """Create a conversation and return its id."""
        made = await self.call("POST", "/conversations", {"settings": {**SETTINGS, **settings}}, status=201)
        return str(made["id"])

    async def ask(self, conversation: str, text: str = "Hi", parent: str | None = None, **more: Any) -> Any:
        """Ask a question; return both messages."""
        body = {"parent": parent, "text": text, **more}
        return await self.call("POST", f"/conversations/{conversation}/messages", body, status=202)

    async def answered(self, conversation: str, text: str = "Hi", parent: str | None = None, **more: Any) -> Any:
        """Ask a question; return the finished answer."""
        asked = await self.ask(conversation, text, parent, **more)
        return (await self.events(conversation, asked["answer"]["id"]))[-1][1]["message"]

    async def events(self, conversation: str, message: str, after: str = "", *, titles: bool = False) -> list[Any]:
        """Return name, data and id of all events until the end, by default without the title's."""
        path = f"/conversations/{conversation}/messages/{message}/events"
        response = await self.browser.get(path, **({"last-event-id": after} if after else {}))
        assert response.status_code == 200, response.text
        found = events_of(response.text)
        return found if titles else [each for each in found if each[0] != "title"]

    async def imported(self, document: Any) -> Any:
        """Import a file; return the finished import."""
        begun = await self.call("POST", "/import", document, status=202)
        async with asyncio.timeout(60):
            while (last := (await self.call("GET", "/import"))["last"])["state"] == "running":
                await asyncio.sleep(0.02)
        assert last["id"] == begun["id"]
        return last

    async def tree(self, conversation: str) -> Any:
        """Return a conversation with all messages."""
        return await self.call("GET", f"/conversations/{conversation}")


@dataclass
class Reader:
    """Reads an answer's events over any number of connections."""

    path: str
    events: list[Any] = field(default_factory=list)

    @property
    def numbers(self) -> int:
        """Number of numbers in the text so far."""
        return len(text_of(self.events).split())

    @property
    def last_id(self) -> str:
        """The id of the last event that has one."""
        return next((id_ for _, _, id_ in reversed(self.events) if id_), "")

    async def follow(self, browser: Browser, enough: Callable[[], bool]) -> None:
        """Continue reading until `enough` is true, or the answer or the connection ends."""
        headers = {"last-event-id": self.last_id} if self.last_id else {}
        async with browser.client.stream("GET", f"/api{self.path}", headers=headers) as response:
            assert response.status_code == 200
            unread = ""
            async for piece in response.aiter_text():
                *whole, unread = (unread + piece).split("\n\n")
                for event in events_of("\n\n".join(whole)):
                    self._take(event)
                if enough():
                    return

    def _take(self, event: Any) -> None:
        if event[0] == "text":
            assert event[1]["at"] <= len(text_of(self.events)), "a gap in the text"
        self.events.append(event)


def events_of(text: str) -> list[tuple[str, Any, str]]:
    """Return name, data and id of each event in a stream."""
    found = []
    for block in text.split("\n\n"):
        fields = dict(line.split(": ", 1) for line in block.splitlines() if ": " in line and not line.startswith(":"))
        if "data" in fields:
            found.append((fields["event"], json.loads(fields["data"]), fields.get("id", "")))
    return found


def text_of(events: list[Any]) -> str:
    """Return the text that a page shows after these events."""
    shown = b""
    for name, data, _ in events:
        if name == "restart":
            shown = b""
        elif name == "text":
            shown = shown[: 2 * data["at"]] + data["text"].encode("utf-16-le")
    return shown.decode("utf-16-le")
