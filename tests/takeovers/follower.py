"""A client of one background response, which goes on at the other gateway whenever its connection is lost.

It creates the response with an `Idempotency-Key`, repeats that request until it has an answer, and then reads events
after the last one that it has.
"""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import Sequence
from itertools import pairwise
from typing import Any

import httpx

LAST_EVENTS = {f"response.{status}" for status in ("completed", "incomplete", "failed", "cancelled")}
RETRIED = {408, 409, 429, 503}
"""Statuses after which a request is repeated."""
RETRY_PAUSE = 0.3
"""Seconds until a request is repeated at the other gateway."""


class Follower:
    """One response of `tokens` tokens, the events that its client has read, and what was wrong about them."""

    def __init__(self, number: int, tokens: int, *, streamed: bool) -> None:
        """`streamed`: whether the request that creates the response asks for its events."""
        self.number = number
        self.tokens = tokens
        self.id = ""
        self.created: set[str] = set()
        """Ids that answers to the request had, which is sent more than once."""
        self.numbers: list[int] = []
        """Sequence numbers of the events, in order of arrival."""
        self.pieces: list[str] = []
        self.times: list[float] = []
        """Times of the pieces of text."""
        self.final: dict[str, Any] | None = None
        """The response of the last event."""
        self.connections = 0
        self.refused: list[str] = []
        """Codes of refusals after which the request was repeated."""
        self.wrong: list[str] = []
        self._streamed = streamed

    @property
    def text(self) -> str:
        """All text of the events."""
        return "".join(self.pieces)

    @property
    def longest_pause(self) -> float:
        """Longest time in seconds between two pieces of text."""
        return max((later - earlier for earlier, later in pairwise(self.times)), default=0.0)

    async def follow(self, clients: Sequence[httpx.AsyncClient], model: str) -> None:
        """Create the response and read its events to the end, at the gateways of `clients` in turn."""
        turn = self.number
        while self.final is None and not self.wrong:
            turn += 1
            try:
                await (self._read(clients[turn % len(clients)]) if self.id else self._create(clients, turn, model))
            except httpx.TransportError:
                await asyncio.sleep(RETRY_PAUSE)

    async def repeat(self, client: httpx.AsyncClient, model: str) -> None:
        """Send the request that created the response once more."""
        answer = await client.post(
            "/v1/responses", json=self._body(model) | {"stream": self._streamed}, headers=self._key
        )
        if answer.status_code != 200:
            self.wrong.append(f"the repeated request was answered {answer.status_code} {answer.text}")
        elif self._streamed:
            self.created.add(json.loads(_data_of(answer.content.split(b"\n\n")[0]))["response"]["id"])
        else:
            self.created.add(answer.json()["id"])

    @property
    def _key(self) -> dict[str, str]:
        return {"idempotency-key": f"response-{self.number}"}

    def _body(self, model: str) -> dict[str, Any]:
        text = f"request {self.number}"
        return {"model": model, "input": text, "max_output_tokens": self.tokens, "background": True}

    async def _create(self, clients: Sequence[httpx.AsyncClient], turn: int, model: str) -> None:
        body = self._body(model) | {"stream": self._streamed}
        client = clients[turn % len(clients)]
        async with client.stream("POST", "/v1/responses", json=body, headers=self._key) as answer:
            self.connections += 1
            if answer.status_code == 200 and self._streamed:
                await self._events(answer)
                return
            content = await answer.aread()
        if answer.status_code == 200:
            self.id = answer.json()["id"]
            self.created.add(self.id)
        elif answer.status_code in RETRIED:
            self.refused.append(json.loads(content)["error"]["code"] or str(answer.status_code))
            await asyncio.sleep(RETRY_PAUSE)
        else:
            self.wrong.append(f"refused with {answer.status_code} {content.decode()}")

    async def _read(self, client: httpx.AsyncClient) -> None:
        after: dict[str, int] = {"starting_after": self.numbers[-1]} if self.numbers else {}
        async with client.stream("GET", f"/v1/responses/{self.id}", params={"stream": "true", **after}) as answer:
            self.connections += 1
            if answer.status_code == 200:
                await self._events(answer)
                return
            content = await answer.aread()
        if answer.status_code != 503:
            self.wrong.append(f"its events were answered {answer.status_code} {content.decode()}")
        await asyncio.sleep(RETRY_PAUSE)

    async def _events(self, answer: httpx.Response) -> None:
        unread = b""
        async for chunk in answer.aiter_bytes():
            *frames, unread = (unread + chunk).split(b"\n\n")
            for frame in frames:
                if (data := _data_of(frame)) and data != b"[DONE]":
                    self._take(json.loads(data))

    def _take(self, event: dict[str, Any]) -> None:
        if "sequence_number" not in event:
            self.wrong.append(f"an event without number: {event}")
            return
        self.numbers.append(event["sequence_number"])
        if event["type"] == "response.created":
            self.id = event["response"]["id"]
            self.created.add(self.id)
        elif event["type"] == "response.output_text.delta":
            self.pieces.append(event["delta"])
            self.times.append(time.time())
        elif event["type"] in LAST_EVENTS:
            self.final = event["response"]


def _data_of(frame: bytes) -> bytes:
    return b"".join(line[6:] for line in frame.splitlines() if line.startswith(b"data: "))
