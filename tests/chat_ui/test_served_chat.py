"""The chat API on a port of a real gateway, over the real store and counting engines.

Every answer is held against our own OpenAPI document.
"""

from __future__ import annotations

import asyncio
import csv
import io
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import httpx
import openai
import openpyxl
import pytest
from fastapi import FastAPI

from gateway.http import unauthenticated_connections
from gateway.settings import GatewaySettings
from infra.accounts import sign_in_services
from infra.web_app.app import create_web_app
from router.bus import Bus
from router.transport.memory import MemoryBroker, MemoryTransport
from tests.chat_ui.browser_client import Browser
from tests.chat_ui.chat_clients import Reader
from tests.chat_ui.openapi_validation import DescribedPerson
from tests.fakes.counting_engine import CountingEngine
from tests.fakes.paying_platform import MODEL, PayingPlatform

pytestmark = [pytest.mark.store, pytest.mark.timeout(300)]

ASKED = {"model": MODEL, "max_tokens": 3}


class ChattingPlatform(PayingPlatform):
    """A platform with the chat beside the OpenAI API, as `headrace gateway` serves it."""

    def _app(self, bus: Bus, settings: GatewaySettings) -> FastAPI:
        # Requests must not be refused for waits that depend on the speed of this machine.
        patient = settings.model_copy(update={"max_wait": 600.0, "max_loop_lag": 60.0})
        return create_web_app(self._access, bus, patient)

    def browser(self, gateway: int = 0) -> Browser:
        """Return a browser without a session."""
        browser = Browser(None, self.urls[gateway].removesuffix("/v1"))
        self._stack.push_async_callback(browser.client.aclose)
        return browser

    async def owner(self) -> DescribedPerson:
        """Sign in as the installation's owner by the printed link."""
        browser = self.browser()
        owner = DescribedPerson(browser)
        await owner.call("POST", "/start", {"invitation": await sign_in_services.first_owner_token(self._access)})
        return owner

    async def invited(self, owner: DescribedPerson, name: str) -> DescribedPerson:
        """Sign up as a member whom the owner has invited."""
        invitation = await owner.call("POST", "/invitations", {"role": "member"}, status=201)
        browser = self.browser()
        assert (await browser.sign_up(invitation["token"], name)).status_code == 200
        return DescribedPerson(browser)


@asynccontextmanager
async def platform(
    database_url: str, home: Path, *, capacity: int = 8, gateways: int = 1
) -> AsyncIterator[ChattingPlatform]:
    """Run a platform with one worker."""
    broker = MemoryBroker()
    async with ChattingPlatform(lambda name: MemoryTransport(broker, name), database_url, home) as served:
        assert isinstance(served, ChattingPlatform)
        await served.start(
            gateways=gateways, workers=1, make_engine=lambda: CountingEngine(step_time=0.02, capacity=capacity)
        )
        yield served


async def exported(person: DescribedPerson, form: str) -> bytes:
    """Return the exported file."""
    response = await person.browser.get(f"/export?format={form}")
    assert response.status_code == 200, response.text
    return response.content


async def test_exported_conversations_are_imported_unchanged(database_url: str, tmp_path: Path) -> None:
    async with platform(database_url, tmp_path) as served:
        ada = await served.owner()
        conversation = await ada.conversation(**ASKED, system="Be kind.", temperature=0.5)
        files = [{"name": "notes.txt", "text": "Żółw"}]
        first = await ada.answered(conversation, "One", attachments=files)
        await ada.answered(conversation, "Two", first["id"])
        await ada.answered(conversation, "Other", first["id"])
        await ada.call("PATCH", f"/conversations/{conversation}", {"title": "=Boats", "pinned": True})

        document = json.loads(await exported(ada, "json"))
        sheet = openpyxl.load_workbook(io.BytesIO(await exported(ada, "xlsx"))).active
        assert sheet is not None
        heads, *rows = [[cell.value for cell in row] for row in sheet.iter_rows()]
        table = list(csv.DictReader(io.StringIO((await exported(ada, "csv")).decode())))
        text = (await exported(ada, "markdown")).decode()
        shown = ["One", "0 1 2 ", "Other", "0 1 2 "]
        assert [row[heads.index("text")] for row in rows] == [row["text"] for row in table] == shown
        assert [row["cost_usd"] != "" for row in table] == [False, True, False, True]
        assert text.startswith("# =Boats\n")
        assert "*notes.txt* (7 bytes)" in text

        eve = await served.invited(ada, "eve")
        assert (await eve.imported(document))["imported"] == 1
        assert (await eve.imported(document))["known"] == 1
        assert comparable(json.loads(await exported(eve, "json"))) == comparable(document)
        theirs = (await eve.call("GET", "/conversations?q=other"))["conversations"][0]
        leaf = (await eve.tree(theirs["id"]))["leaf"]
        assert (await eve.answered(theirs["id"], "And now?", leaf, settings=ASKED))["text"] == "0 1 2 "


def comparable(document: Any) -> Any:
    """Return an export with ids replaced by positions, and without costs and times."""
    (conversation,) = document["conversations"]
    places = {each["id"]: place for place, each in enumerate(conversation["messages"])}
    messages = [
        {name: each[name] for name in ("role", "text", "created", "attachments", "settings")}
        | {"parent": places.get(each["parent"])}
        for each in conversation["messages"]
    ]
    kept = ("title", "created", "updated", "pinned", "archived", "settings")
    told = {name: conversation[name] for name in kept}
    return told | {"leaf": places[conversation["leaf"]], "messages": messages}


async def test_a_waiting_answer_reports_its_queue_position(database_url: str, tmp_path: Path) -> None:
    async with platform(database_url, tmp_path, capacity=1) as served, asyncio.timeout(120):
        ada = await served.owner()
        asked: list[str] = []
        for _ in range(4):
            conversation = await ada.conversation(model=MODEL, max_tokens=1000)
            answer = (await ada.ask(conversation))["answer"]["id"]
            asked.append(f"/conversations/{conversation}/messages/{answer}")
        reader = Reader(f"{asked[-1]}/events")
        await reader.follow(ada.browser, lambda: any(data.get("position") for _, data, _ in reader.events))
        for answer in asked:
            await ada.call("POST", f"{answer}/stop", status=202)
        await reader.follow(ada.browser, lambda: False)
        (ended,) = [data["message"] for name, data, _ in reader.events if name == "done"]
        assert ended["state"] == "stopped"
        assert all(data["position"] in (None, 1, 2, 3) for name, data, _ in reader.events if name == "waiting")


async def test_the_administration_routes(database_url: str, tmp_path: Path) -> None:
    async with platform(database_url, tmp_path) as served, asyncio.timeout(120):
        ada = await served.owner()
        await projects(ada)
        await keys(ada, served)
        await budgets(ada)
        cost = (await ada.answered(await ada.conversation(**ASKED)))["cost_nano"]
        await served.settled()
        await usage(ada, cost)
        fleet = await ada.call("GET", "/admin/workers")
        assert [(each["id"], each["state"]) for each in fleet["workers"]] == [("worker-1", "ready")]
        assert [(each["id"], each["alive"], each["queued"]) for each in fleet["models"]] == [(MODEL, True, 0)]
        await audit(ada)


async def test_a_removed_administrator_keeps_nothing_at_any_gateway(database_url: str, tmp_path: Path) -> None:
    async with platform(database_url, tmp_path, gateways=2) as served, asyncio.timeout(120):
        ada, eve = await served.owner(), DescribedPerson(served.browser(1))
        used = (await ada.call("POST", "/invitations", {"role": "admin"}, status=201))["token"]
        assert (await eve.browser.sign_up(used, "eve")).status_code == 200
        wish = {"project": (await eve.call("GET", "/me"))["project"], "name": "k"}
        key = (await eve.call("POST", "/admin/keys", wish, status=201))["text"]
        invitation = (await eve.call("POST", "/invitations", {"role": "admin"}, status=201))["token"]
        conversation = await eve.conversation(**ASKED)
        shared = (await eve.call("POST", f"/conversations/{conversation}/share", status=201))["token"]
        clients = [served.client(gateway).with_options(api_key=key) for gateway in range(2)]
        assert [await is_taken(client) for client in clients] == [True, True]
        user = (await eve.call("GET", "/me"))["user"]["id"]  # who is cached now by the second gateway

        await ada.call("DELETE", f"/people/{user}", status=204)
        await eve.call("POST", "/admin/keys", wish, status=401)
        await eve.call("POST", "/invitations", {"role": "admin"}, status=401)
        await eve.call("POST", f"/conversations/{conversation}/share", status=401)
        await eve.call("POST", "/session/refresh", status=401)
        for client in clients:
            while await is_taken(client):
                await asyncio.sleep(0.05)
        visitor = DescribedPerson(served.browser())
        await visitor.call("GET", f"/shared/{shared}", status=404)
        for token, name in ((used, "eve"), (invitation, "mallory"), (invitation, "eve")):
            assert (await served.browser().sign_up(token, name)).status_code == 404
        assert [each["email"] for each in (await ada.call("GET", "/people"))["people"]] == [
            "owner@development.localhost"
        ]
        spare = (await ada.call("POST", "/invitations", {"role": "viewer"}, status=201))["token"]
        assert (await served.browser().sign_up(spare, "eve")).status_code == 200
        await visitor.call("GET", f"/shared/{shared}", status=404)
        await eve.call("POST", "/session/refresh", status=401)


async def test_signed_in_browsers_behind_one_address_are_not_limited(
    database_url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """H59: connections of signed-in browsers do not count as unauthenticated, those of others do."""
    monkeypatch.setattr(unauthenticated_connections, "GRACE_PERIOD", 0.0)
    monkeypatch.setenv("HEADRACE_MAX_STRANGERS", "3")
    async with platform(database_url, tmp_path) as served, asyncio.timeout(120):
        open_ones: list[asyncio.StreamWriter] = []
        ada = await served.owner()
        cookie = "; ".join(f"{name}={value}" for name, value in ada.browser.cookies.items())

        async def status(path: str, **headers: str) -> bytes:
            """Return the status of a request, whose connection stays open."""
            reader, writer = await asyncio.open_connection("127.0.0.1", httpx.URL(served.urls[0]).port)
            open_ones.append(writer)
            lines = "".join(f"{name}: {value}\r\n" for name, value in {"host": "x", **headers}.items())
            writer.write(f"GET {path} HTTP/1.1\r\n{lines}\r\n".encode())
            return (await reader.readuntil(b"\r\n")).split()[1]

        assert b"429" not in [await status(path, cookie=cookie) for path in ("/api/me", "/", "/missing.js") * 3]
        forged = cookie.replace("headrace-access=", "headrace-access=x")
        strangers = [await status("/api/sign-up", **headers) for headers in ({}, {"cookie": forged}, {}, {})]
        assert strangers[0] == b"200"
        assert strangers[-1] == b"429"
        assert await ada.call("GET", "/me")  # over a connection that is known already
        for each in open_ones:
            each.close()


async def projects(ada: DescribedPerson) -> None:
    """Create, rename and archive a project."""
    made = await ada.call("POST", "/admin/projects", {"name": "Boats"}, status=201)
    renamed = await ada.call("PATCH", f"/admin/projects/{made['id']}", {"name": "Ships"})
    assert (renamed["id"], renamed["name"]) == (made["id"], "Ships")
    archived = await ada.call("POST", f"/admin/projects/{made['id']}/archive", {})
    assert archived["archived"] is not None
    listed = (await ada.call("GET", "/admin/projects"))["projects"]
    assert [each["archived"] is None for each in listed if each["name"] == "Ships"] == [False]


async def keys(ada: DescribedPerson, served: ChattingPlatform) -> None:
    """Create a key, use it, rotate it and revoke it."""
    project = (await ada.call("GET", "/me"))["project"]
    wish = {"project": project, "name": "boat", "budget_nano": 10**9, "models": [MODEL]}
    made = await ada.call("POST", "/admin/keys", wish, status=201)
    client = served.client().with_options(api_key=made["text"])
    assert [each.id async for each in client.models.list()] == [MODEL]
    old = made["key"]["id"]
    successor = await ada.call("POST", f"/admin/keys/{old}/rotate", {"overlap_seconds": 3600}, status=201)
    await ada.call("DELETE", f"/admin/keys/{old}", status=204)
    while await is_taken(client):
        await asyncio.sleep(0.05)
    listed = (await ada.call("GET", "/admin/keys"))["keys"]
    assert [each for each in listed if each["id"] in (old, successor["key"]["id"])] == [successor["key"]]


async def is_taken(client: openai.AsyncOpenAI) -> bool:
    """Return whether the client's key is valid."""
    try:
        await client.models.list()
    except openai.AuthenticationError:
        return False
    return True


async def budgets(ada: DescribedPerson) -> None:
    """With an exhausted budget answers fail with its error; without a budget they work."""
    conversation = await ada.conversation(**ASKED)
    await ada.call("POST", "/admin/budgets", {"name": "organisation", "limit_nano": 0})
    while (answer := await ada.answered(conversation))["state"] != "failed":
        await asyncio.sleep(0.2)
    assert answer["error"]["code"] == "budget_exhausted"
    freed = await ada.call("POST", "/admin/budgets", {"name": "organisation", "limit_nano": None})
    assert freed["budgets"][0]["limit_nano"] is None
    while (await ada.answered(conversation))["state"] != "done":
        await asyncio.sleep(0.2)
    assert await ada.call("GET", "/admin/budgets")


async def usage(ada: DescribedPerson, cost: int) -> None:
    """Usage lists the requests by person with their cost."""
    own, everybody = await ada.call("GET", "/usage?days=2"), await ada.call("GET", "/admin/usage?days=2")
    spent = sum(each["cost_nano"] for each in own["by_day"])
    assert own["by_day"] == everybody["by_day"]
    assert {each["model"] for each in own["by_day"]} == {MODEL}
    assert spent >= cost > 0
    assert sum(each["cost_nano"] for each in everybody["by_person"]) == spent
    credit = await ada.call("GET", "/admin/credit")
    assert (credit["spent_nano"], credit["entries"][0]["kind"]) == (spent, "promo")
    assert (await ada.call("GET", "/admin/prices"))["prices"]
    (served,) = (await ada.call("GET", "/models"))["models"]
    assert (served["id"], served["ready"]) == (MODEL, True)


async def audit(ada: DescribedPerson) -> None:
    """The audit log has an entry for every action, page by page."""
    events: list[str] = []
    cursor = ""
    while True:
        page = await ada.call("GET", f"/admin/audit?limit=3{cursor}")
        events += [each["event"] for each in page["entries"]]
        if page["next"] is None:
            break
        cursor = f"&cursor={page['next']}"
    expected = "project.created project.updated project.archived api_key.created api_key.rotated api_key.deleted"
    assert {*expected.split(), "budget.updated", "budget.deleted"} <= set(events)
    assert len(events) == len((await ada.call("GET", "/admin/audit?limit=100"))["entries"])


async def test_the_operators_limit_of_stored_bytes_holds_over_gateways(
    database_url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HEADRACE_CHAT_STORAGE_MIB", "1")
    async with platform(database_url, tmp_path, gateways=2) as served:
        ada = await served.owner()
        other = served.browser(1)
        other.take(ada.browser.cookies)
        chats = [await ada.conversation(**ASKED) for _ in range(6)]
        body = {"parent": None, "text": "One", "attachments": [{"name": "a.txt", "text": "x" * 300_000}]}
        responses = await asyncio.gather(
            *(
                (ada.browser, other)[number % 2].send("POST", f"/conversations/{chat}/messages", body)
                for number, chat in enumerate(chats)
            )
        )
        assert sorted(each.status_code for each in responses) == [202] * 3 + [409] * 3
        refused = next(each for each in responses if each.status_code == 409)
        assert refused.json()["error"]["code"] == "storage_full"
        storage = (await ada.call("GET", "/usage"))["storage"]
        assert 900_000 < storage["used_bytes"] <= storage["limit_bytes"] == 2**20
        message = {"role": "user", "content": "x" * 300_000}
        outcome = await ada.imported([{"title": "Long", "chat": {"history": {"messages": {"q": message}}}}])
        assert [each["reason"] for each in outcome["skipped"]] == ["storage_full"]
        stored = [chat for chat, answer in zip(chats, responses, strict=True) if answer.status_code == 202]
        for chat in stored[:2]:
            await ada.call("DELETE", f"/conversations/{chat}", status=204)
        assert (await ada.imported([{"title": "Long", "chat": {"history": {"messages": {"q": message}}}}]))[
            "imported"
        ] == 1


async def test_a_persons_rate_limit_holds_for_chats_and_keys_at_both_gateways(
    database_url: str, tmp_path: Path
) -> None:
    async with platform(database_url, tmp_path, gateways=2) as served, asyncio.timeout(120):
        ada = await served.owner()
        me = await ada.call("GET", "/me")
        conversation = await ada.conversation(**ASKED)
        key = (await ada.call("POST", "/admin/keys", {"project": me["project"], "name": "k"}, status=201))["text"]
        clients = [served.client(gateway).with_options(api_key=key) for gateway in range(2)]
        assert [await admitted(client) for client in clients] == [True, True]  # whose limits are cached now

        dimensions = ("requests_per_minute", "tokens_per_minute", "requests_per_day", "concurrent_requests")
        none = {"subject": f"person:{me['user']['id']}", **dict.fromkeys(dimensions)}
        await ada.call("POST", "/admin/rate_limits", {**none, "requests_per_day": 1})
        await asyncio.sleep(5)
        assert [await admitted(client) for client in clients] == [True, False]
        failed = await ada.answered(conversation)
        assert (failed["state"], failed["error"]["code"]) == ("failed", "rate_limit_exceeded")
        assert "this user's API keys and chats together" in failed["error"]["message"]
        (limit,) = [each for each in (await ada.call("GET", "/usage?days=1"))["limits"] if each["subject"] == "you"]
        assert limit["requests_per_day"] == 1

        await ada.call("POST", "/admin/rate_limits", none)
        await asyncio.sleep(5)
        assert [await admitted(client) for client in clients] == [True, True]
        assert (await ada.answered(conversation))["state"] == "done"


async def admitted(client: openai.AsyncOpenAI) -> bool:
    """Return whether a request is within its rate limits."""
    try:
        await client.chat.completions.create(model=MODEL, messages=[{"role": "user", "content": "hi"}], max_tokens=1)
    except openai.RateLimitError:
        return False
    return True
