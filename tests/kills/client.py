"""A client that asks an assistant a follow-up question, and asks again if its gateway dies and it has a key."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import httpx

from tests.chaos.stack import ASSISTANT
from tests.kills.engines import TOKENS
from tests.kills.gates import Tag

PATIENCE = 240.0
"""Seconds within which an answer has to be there."""
MOST_TRIES = 400


@dataclass
class Asked:
    """A request, and what its client has got."""

    tag: Tag
    streamed: bool
    key: str = ""
    id: str = ""
    text: str = ""
    steps: list[dict[str, Any]] = field(default_factory=list)
    """All ended steps, in order."""
    usage: dict[str, Any] = field(default_factory=dict)
    finish: str = ""
    whole: bool = False
    broken: int = 0
    """Connections that went."""
    errors: list[str] = field(default_factory=list)
    seed: int = 7

    @property
    def tokens(self) -> int:
        """Number of the answer's tokens that have arrived."""
        return self.text.count(" ")

    def body(self) -> dict[str, Any]:
        """Return the request's body."""
        messages = [
            {"role": "user", "content": f"weather in Krakow? {self.tag}"},
            {"role": "assistant", "content": "It is warm in Krakow."},
            {"role": "user", "content": "and tomorrow?"},
        ]
        body: dict[str, Any] = {"model": ASSISTANT, "messages": messages, "max_tokens": TOKENS, "seed": self.seed}
        body["tools_allowed"] = ["mcp.desk.look"]
        if self.streamed:
            body |= {"stream": True, "stream_options": {"include_usage": True}}
        return body

    async def ask(self, http: httpx.AsyncClient, ports: Sequence[int]) -> Asked:
        """Ask at the first port; after a broken connection, with a key, at the others, until the answer is whole."""
        headers = {"idempotency-key": self.key} if self.key else {}
        try:
            async with asyncio.timeout(PATIENCE):
                await self._until_whole(http, ports, headers)
        except TimeoutError:
            self.errors.append(f"no answer in {PATIENCE:.0f} s")
        return self

    async def _until_whole(self, http: httpx.AsyncClient, ports: Sequence[int], headers: dict[str, str]) -> None:
        for port in _ports(ports):
            self._forget()
            try:
                await self._once(http, f"http://127.0.0.1:{port}/v1/chat/completions", headers)
            except (httpx.TransportError, httpx.StreamError):
                self.broken += 1
            if self.whole or not self.key:
                return
            await asyncio.sleep(0.3)

    def _forget(self) -> None:
        self.text, self.steps, self.usage, self.finish = "", [], {}, ""

    async def _once(self, http: httpx.AsyncClient, url: str, headers: dict[str, str]) -> None:
        if not self.streamed:
            answer = await http.post(url, json=self.body(), headers=headers)
            self._read_whole(answer)
            return
        async with http.stream("POST", url, json=self.body(), headers=headers) as answer:
            if answer.status_code != 200:
                self.errors.append(f"{answer.status_code} {(await answer.aread())[:300]!r}")
                return
            async for line in answer.aiter_lines():
                self._read_line(line)

    def _read_whole(self, answer: httpx.Response) -> None:
        if answer.status_code != 200:
            self.errors.append(f"{answer.status_code} {answer.text[:300]}")
            return
        found = answer.json()
        choice = found["choices"][0]
        self.id, self.usage, self.finish = found["id"], found["usage"], choice["finish_reason"]
        self.text = choice["message"]["content"] or ""
        self.steps = choice["message"].get("steps", [])
        self.whole = True

    def _read_line(self, line: str) -> None:
        if line == "data: [DONE]":
            self.whole = bool(self.finish)
        elif line.startswith("data: "):
            event = json.loads(line[6:])
            if "error" in event:
                self.errors.append(str(event["error"]))
                return
            self.id, self.usage = event["id"], event.get("usage") or self.usage
            for choice in event["choices"]:
                self.text += choice["delta"].get("content") or ""
                self.steps += [each for each in choice["delta"].get("steps", ()) if each["state"] != "running"]
                self.finish = choice["finish_reason"] or self.finish


def _ports(ports: Sequence[int]) -> Sequence[int]:
    """Return the port of each try: a gateway that died is asked once."""
    first, *others = ports
    return [first, *(others or [first]) * MOST_TRIES]
