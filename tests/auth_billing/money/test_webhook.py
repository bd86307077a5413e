"""The webhook client: signatures that OpenAI's SDK verifies, retries, and no redirects."""

from __future__ import annotations

import asyncio
import base64
import json
from collections.abc import AsyncIterator
from typing import Any

import openai
import pytest
from tenacity import wait_none

from auth_billing.errors import AlertNotSent
from auth_billing.housekeeping import Housekeeping
from auth_billing.money.webhook import MAX_TRIES, Webhook
from auth_billing.settings import BillingSettings
from auth_billing.store.connection import StoreConnection
from runtime.lifecycle import StartupError

SECRET = "whsec_" + base64.b64encode(b"s" * 32).decode()
MESSAGE: dict[str, object] = {"id": "alert:1", "object": "event", "type": "credit.low", "data": {"name": "Zoë"}}


class Receiver:
    """An HTTP server that answers with the given statuses in order, then with the last one."""

    def __init__(self) -> None:
        self.statuses = [204]
        self.requests: list[tuple[dict[str, str], bytes]] = []

    async def answer(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        head = (await reader.readuntil(b"\r\n\r\n")).decode().split("\r\n")
        headers = {
            name: line.split(": ", 1)[1] for line in head[1:] if line for name in [line.split(": ", 1)[0].lower()]
        }
        self.requests.append((headers, await reader.readexactly(int(headers["content-length"]))))
        status = self.statuses.pop(0) if len(self.statuses) > 1 else self.statuses[0]
        writer.write(f"HTTP/1.1 {status} X\r\nlocation: http://127.0.0.1:1/\r\nconnection: close\r\n\r\n".encode())
        writer.close()


@pytest.fixture
async def receiver() -> AsyncIterator[tuple[Receiver, str]]:
    receiver = Receiver()
    server = await asyncio.start_server(receiver.answer, "127.0.0.1", 0)
    yield receiver, f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}/hook"
    server.close()


@pytest.fixture
async def hook(receiver: tuple[Receiver, str]) -> AsyncIterator[Webhook]:
    webhook = Webhook(receiver[1], SECRET, wait=wait_none())
    yield webhook
    await webhook.close()


@pytest.mark.parametrize("secret", [SECRET, "a plain text of some length"])
async def test_openais_sdk_verifies_the_signature(receiver: tuple[Receiver, str], secret: str) -> None:
    webhook = Webhook(receiver[1], secret)
    await webhook.send("alert:1", MESSAGE)
    await webhook.close()
    headers, body = receiver[0].requests[0]
    client = openai.OpenAI(api_key="none", webhook_secret=secret)
    client.webhooks.verify_signature(body, headers)
    assert json.loads(body) == MESSAGE
    with pytest.raises(openai.InvalidWebhookSignatureError):
        client.webhooks.verify_signature(body + b" ", headers)


async def test_a_busy_receiver_gets_the_same_id_again(receiver: tuple[Receiver, str], hook: Webhook) -> None:
    receiver[0].statuses = [503, 429, 200]
    await hook.send("alert:1", MESSAGE)
    assert [headers["webhook-id"] for headers, _ in receiver[0].requests] == ["alert:1"] * 3


@pytest.mark.parametrize(("status", "tries"), [(500, MAX_TRIES), (400, 1), (307, 1), (404, 1)])
async def test_a_refused_message_raises(receiver: tuple[Receiver, str], hook: Webhook, status: int, tries: int) -> None:
    receiver[0].statuses = [status]
    with pytest.raises(AlertNotSent, match=str(status)):
        await hook.send("alert:1", MESSAGE)
    assert len(receiver[0].requests) == tries


async def test_an_unreachable_receiver_raises() -> None:
    webhook = Webhook("http://127.0.0.1:1/", SECRET, wait=wait_none())
    with pytest.raises(AlertNotSent, match="can't be reached"):
        await webhook.send("alert:1", MESSAGE)
    await webhook.close()


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"alert_url": "ftp://x/"}, "HEADRACE_ALERT_URL"),
        ({"alert_url": "http://"}, "HEADRACE_ALERT_URL"),
        ({"alert_secret": ""}, "HEADRACE_ALERT_SECRET"),
        ({"alert_secret": "short"}, "HEADRACE_ALERT_SECRET"),
        ({"alert_secret": "whsec_%%%%%%%%%%%%%%%%%%%%%%%%%"}, "HEADRACE_ALERT_SECRET"),
        ({"alert_credit": "-1"}, "HEADRACE_ALERT_CREDIT=-1"),
    ],
)
async def test_invalid_settings_are_refused(changes: dict[str, str], message: str) -> None:
    settings = BillingSettings(**dict[str, Any](alert_url="http://127.0.0.1:1/", alert_secret=SECRET) | changes)
    connection = StoreConnection("mongodb://127.0.0.1:1")
    with pytest.raises(StartupError, match=message):
        Housekeeping(settings, connection)
    connection.close()
