"""An event stream ends when its reader is signed out, even if it is idle."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator

import pytest

from chat_ui.generations import answer_events
from chat_ui.http.routes import events
from tests.chat_ui.chat_clients import Scene, eventually


@pytest.fixture
async def scene() -> AsyncIterator[Scene]:
    scene = Scene()
    yield scene
    await scene.close()


@pytest.mark.parametrize("here", [True, False], ids=["at the gateway that writes", "at another one"])
async def test_an_idle_stream_ends_when_its_reader_is_signed_out(
    scene: Scene, monkeypatch: pytest.MonkeyPatch, *, here: bool
) -> None:
    monkeypatch.setattr(events, "SESSION_CHECK_INTERVAL", 0.0)
    monkeypatch.setattr(answer_events, "CHANGE_TIMEOUT", 0.01)
    monkeypatch.setattr(answer_events, "POLL_INTERVAL", 0.01)
    scene.engine.patient = True
    person = await scene.person()
    conversation = await person.conversation()
    answer = (await person.ask(conversation))["answer"]["id"]
    await eventually(lambda: bool(scene.engine.asked))
    if not here:
        person.browser.move_to(scene.gateway())
    reading = asyncio.create_task(person.events(conversation, answer))
    done, _ = await asyncio.wait({reading}, timeout=0.3)
    assert not done
    await person.call("DELETE", "/session", status=204)
    async with asyncio.timeout(30):
        told = await reading
    assert {name for name, _, _ in told} == {"waiting"}
    assert len(told) <= 2, "no place yet, and his place once the other gateway has written it down"
    assert scene.chats.history.messages[answer][1].state.is_open
