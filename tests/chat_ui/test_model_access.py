"""Restricted models in the chat and with API keys, over two real gateways and the real store."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import openai
import pytest

from tests.chat_ui.openapi_validation import DescribedPerson
from tests.chat_ui.test_served_chat import ASKED, ChattingPlatform, platform
from tests.fakes.paying_platform import MODEL

pytestmark = [pytest.mark.store, pytest.mark.timeout(300)]

EFFECTIVE_WITHIN = 5.0
"""Seconds until a change holds everywhere."""


async def person(served: ChattingPlatform, owner: DescribedPerson, role: str, name: str) -> DescribedPerson:
    """Sign up, at the second gateway, with an invitation for a role."""
    invitation = await owner.call("POST", "/invitations", {"role": role}, status=201)
    browser = served.browser(1)
    assert (await browser.sign_up(invitation["token"], name)).status_code == 200
    return DescribedPerson(browser)


async def holds_soon(condition: Callable[[], Awaitable[bool]]) -> None:
    began = time.monotonic()
    while not await condition():
        assert time.monotonic() < began + EFFECTIVE_WITHIN
        await asyncio.sleep(0.05)


async def models_of(person: DescribedPerson) -> list[str]:
    return [each["id"] for each in (await person.call("GET", "/models"))["models"]]


async def all_list(clients: list[openai.AsyncOpenAI], models: list[str]) -> bool:
    """Return whether every client sees exactly these models."""
    return [[each.id async for each in client.models.list()] for client in clients] == [models] * len(clients)


async def forbid(actor: DescribedPerson, kind: str, id_: str, *models: str, status: int = 200) -> Any:
    body = {"kind": kind, "id": id_, "mode": "deny_list", "model_ids": list(models)}
    return await actor.call("POST", "/admin/model-access", body, status=status)


@pytest.mark.parametrize("kind", ["project", "role", "user"])
async def test_a_forbidden_model_does_not_exist_for_keys_and_chats(
    database_url: str, tmp_path: Path, kind: str
) -> None:
    async with platform(database_url, tmp_path, gateways=2) as served, asyncio.timeout(120):
        owner = await served.owner()
        eve = await person(served, owner, "admin", "eve")
        me = await eve.call("GET", "/me")
        subject = {"project": me["project"], "role": "admin", "user": me["user"]["id"]}[kind]
        key = (await eve.call("POST", "/admin/keys", {"project": me["project"], "name": "k"}, status=201))["text"]
        clients = [served.client(gateway).with_options(api_key=key) for gateway in range(2)]
        preset = await eve.call("POST", "/presets", {"name": "Old", "settings": ASKED}, status=201)
        conversation = await eve.conversation(**preset["settings"])
        answer = await eve.answered(conversation)
        question = [{"role": "user", "content": "Hi"}]
        replayed = {"model": MODEL, "messages": question, "max_tokens": 3, "extra_headers": {"Idempotency-Key": "k"}}
        for client in clients:
            await client.chat.completions.create(**replayed)  # type: ignore[call-overload]
        assert await models_of(eve) == [MODEL]

        listed = await forbid(owner, kind, subject, MODEL)
        assert listed["policies"] == [{"kind": kind, "id": subject, "mode": "deny_list", "model_ids": [MODEL]}]
        assert listed["models"] == [MODEL]

        await holds_soon(lambda: all_list(clients, []))
        for client in clients:
            asks: list[Callable[[], Awaitable[Any]]] = [
                lambda client=client: client.models.retrieve(MODEL),  # type: ignore[misc]
                lambda client=client: client.chat.completions.create(**replayed),  # type: ignore[misc]
                lambda client=client: client.completions.create(model=MODEL, prompt="Hi"),  # type: ignore[misc]
                lambda client=client: client.embeddings.create(model=MODEL, input="Hi"),  # type: ignore[misc]
            ]
            for ask in asks:
                with pytest.raises(openai.NotFoundError, match="does not exist or you do not have access"):
                    await ask()
        assert await models_of(eve) == []
        again = f"/conversations/{conversation}/messages/{answer['id']}/regenerate"
        regenerated = (await eve.call("POST", again, {}, status=202))["answer"]["id"]
        refused = [
            (await eve.events(conversation, regenerated))[-1][1]["message"],
            await eve.answered(await eve.conversation(**preset["settings"])),
        ]
        assert [(each["state"], each["error"]["code"]) for each in refused] == [("failed", "model_not_found")] * 2
        if kind != "project":  # the owner's chat is in the same project
            assert await models_of(owner) == [MODEL]

        await forbid(owner, kind, subject)

        await holds_soon(lambda: all_list(clients, [MODEL]))
        assert (await eve.answered(conversation, "More", answer["id"], settings=ASKED))["text"] == "0 1 2 "
        events = [each["event"] for each in (await owner.call("GET", "/admin/audit"))["entries"][:2]]
        assert events == ["model_permissions.deleted", "model_permissions.updated"]


async def test_owners_can_not_be_restricted_and_no_one_widens_their_own_access(
    database_url: str, tmp_path: Path
) -> None:
    async with platform(database_url, tmp_path, gateways=2) as served, asyncio.timeout(120):
        owner = await served.owner()
        eve, bob = await person(served, owner, "admin", "eve"), await person(served, owner, "member", "bob")
        ids = [(await each.call("GET", "/me"))["user"]["id"] for each in (owner, eve, bob)]
        await forbid(owner, "role", "owner", MODEL, status=400)
        await forbid(eve, "user", ids[0], MODEL, status=400)
        await forbid(owner, "user", ids[1], MODEL)
        await forbid(owner, "role", "admin", MODEL)
        await forbid(eve, "user", ids[1], status=403)
        await forbid(eve, "role", "admin", status=403)
        await forbid(eve, "user", ids[2], MODEL)
        await forbid(bob, "user", ids[2], status=403)
        await forbid(owner, "user", "user-nobody", MODEL, status=404)
        assert [await models_of(each) for each in (owner, eve, bob)] == [[MODEL], [], []]
        await owner.call("PATCH", f"/people/{ids[1]}", {"role": "owner"})

        async def is_free() -> bool:
            return await models_of(eve) == [MODEL]

        await holds_soon(is_free)
