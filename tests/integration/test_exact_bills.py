"""Bills are exact to the token: reported usage, the ledger, and the engines' counts are equal.

Mixed requests over RabbitMQ, with two gateways and two workers: streamed or not, several choices and prompts, stop
strings, clients that disconnect at random points, requests that fail before and after they start, retries with
idempotency keys. 26 requests; `make test-bills` sends 300.
"""

from __future__ import annotations

import asyncio
import json
import os
import random
import subprocess
import sys
import time
from collections import defaultdict
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import httpx
import pytest

from router.transport.rabbitmq import RabbitMQTransport
from tests.fakes.counting_engine import CountingEngine
from tests.fakes.paying_platform import MODEL, PayingPlatform

REQUESTS = int(os.environ.get("HEADRACE_TEST_BILLS", "26"))
AT_ONCE = 16
FAILING = ord("!")
"""A prompt with this byte fails in the engine."""
CREDIT = 10**15

pytestmark = [pytest.mark.rabbitmq, pytest.mark.store]


class FailingEngine(CountingEngine):
    """Some requests fail after a while: before their first token, or after it."""

    def submit(self, request: Any) -> None:
        super().submit(request)
        if FAILING in request.prompt_ids:
            delay = 0.001 * (sum(request.prompt_ids) % 60)
            asyncio.get_running_loop().call_later(delay, self._fail, request.id)

    def _fail(self, request: str) -> None:
        if request in self._requests:
            self.fail(request)


@dataclass
class Seen:
    """A client's view of one request."""

    kind: str
    id: str | None = None
    """The answer's, which is that of its first job."""
    status: int = 0
    usage: dict[str, Any] | None = None
    """Usage as reported to the client, if it was."""
    tokens: int = 0
    """Those that came, as far as can be seen in the text."""
    ended: bool = False
    """Whether it came to its end without an error."""


@dataclass
class Client:
    """Sends requests to the gateways in turn."""

    platform: PayingPlatform
    http: httpx.AsyncClient
    draw: random.Random
    seen: list[Seen] = field(default_factory=list)

    def body(self, **fields: Any) -> dict[str, Any]:
        return {"model": MODEL, "max_tokens": self.draw.randrange(1, 120), **fields}

    def chat(self, **fields: Any) -> dict[str, Any]:
        content = "x" * self.draw.randrange(1, 200)
        return self.body(messages=[{"role": "user", "content": content}], **fields)

    async def post(self, path: str, body: dict[str, Any], **headers: str) -> httpx.Response:
        url = self.draw.choice(self.platform.urls)
        return await self.http.post(f"{url}{path}", json=body, headers=headers)

    async def whole(self, kind: str, path: str, body: dict[str, Any], **headers: str) -> Seen:
        seen = Seen(kind)
        self.seen.append(seen)
        answer = await self.post(path, body, **headers)
        seen.status = answer.status_code
        if answer.status_code == 200:
            told = answer.json()
            seen.id, seen.usage, seen.ended = told["id"], told["usage"], True
        return seen

    async def stream(self, kind: str, body: dict[str, Any], *, tokens: int | None = None) -> None:
        """Read a stream to its end, or until so many tokens are there."""
        seen = Seen(kind)
        self.seen.append(seen)
        url = f"{self.draw.choice(self.platform.urls)}/chat/completions"
        body |= {"stream": True, "stream_options": {"include_usage": True}}
        async with self.http.stream("POST", url, json=body) as answer:
            seen.status = answer.status_code
            async for line in answer.aiter_lines():
                self._read(line, seen)
                if tokens is not None and seen.tokens >= tokens:
                    return

    def _read(self, line: str, seen: Seen) -> None:
        if line == "data: [DONE]":
            seen.ended = True
        elif line.startswith("data: {") and "error" not in (event := json.loads(line[6:])):
            seen.id = event["id"]
            seen.usage = event["usage"] or seen.usage
            seen.tokens += sum((choice["delta"].get("content") or "").count(" ") for choice in event["choices"])

    # Kinds of requests

    async def a_whole_chat(self) -> None:
        await self.whole("whole", "/chat/completions", self.chat(n=self.draw.randrange(1, 4)))

    async def several_prompts(self) -> None:
        prompts = ["y" * self.draw.randrange(1, 50) for _ in range(self.draw.randrange(1, 4))]
        await self.whole("prompts", "/completions", self.body(prompt=prompts, n=self.draw.randrange(1, 3)))

    async def candidates(self) -> None:
        await self.whole("candidates", "/completions", self.body(prompt=[1, 2, 3], best_of=3, echo=True))

    async def a_stop_string(self) -> None:
        await self.whole("stop", "/chat/completions", self.chat(stop=[f"{self.draw.randrange(1, 60)} "]))

    async def a_stream(self) -> None:
        await self.stream("stream", self.chat(n=self.draw.randrange(1, 4)))

    async def a_stream_that_is_left(self) -> None:
        await self.stream("left", self.chat(), tokens=self.draw.randrange(0, 60))

    async def a_whole_answer_that_is_left(self) -> None:
        asking = asyncio.create_task(self.whole("left whole", "/chat/completions", self.chat()))
        await asyncio.wait({asking}, timeout=self.draw.random() * 0.5)
        asking.cancel()
        await asyncio.gather(asking, return_exceptions=True)

    async def a_failure(self) -> None:
        await self.whole("failing", "/completions", self.body(prompt="!" + "z" * self.draw.randrange(1, 60)))

    async def a_stream_that_fails(self) -> None:
        await self.stream("failing stream", self.chat() | {"messages": [{"role": "user", "content": "!"}]})

    async def too_long(self) -> None:
        await self.whole("too long", "/completions", self.body(prompt="w" * 2000) | {"max_tokens": 2000})

    async def retries(self) -> None:
        """The same request, at once and again: it runs once."""
        body, key = self.chat(), f"key-{self.draw.getrandbits(60)}"
        headers = {"idempotency-key": key}
        await asyncio.gather(*(self.whole("keyed", "/chat/completions", body, **headers) for _ in range(3)))
        async with asyncio.timeout(30):
            while (await self.whole("keyed", "/chat/completions", body, **headers)).status != 200:
                await asyncio.sleep(0.1)


KINDS: list[Callable[[Client], Awaitable[None]]] = [
    Client.a_whole_chat,
    Client.several_prompts,
    Client.candidates,
    Client.a_stop_string,
    Client.a_stream,
    Client.a_stream,
    Client.a_stream_that_is_left,
    Client.a_stream_that_is_left,
    Client.a_whole_answer_that_is_left,
    Client.a_failure,
    Client.a_stream_that_fails,
    Client.too_long,
    Client.retries,
]


async def test_reported_billed_and_counted_tokens_are_equal(
    rabbitmq_url: str, database_url: str, tmp_path: Path
) -> None:
    def transport(name: str) -> RabbitMQTransport:
        return RabbitMQTransport(rabbitmq_url, name, publish_timeout=10)

    began = time.monotonic()
    async with PayingPlatform(transport, database_url, tmp_path) as platform:
        await platform.start(gateways=2, workers=2, make_engine=lambda: FailingEngine(step_time=0.003))
        async with httpx.AsyncClient(headers={"authorization": f"Bearer {platform.key}"}, timeout=60) as http:
            client = Client(platform, http, random.Random(20261121))
            await _ask_all(client)
        await platform.settled()
        await _records_are_there(platform)
        await _check(platform, client.seen)
        assert await platform.differences() == []
    print(f"{REQUESTS} requests in {time.monotonic() - began:.1f} s")
    audit = [sys.executable, "-m", "infra.cli", "audit", "--mongodb-url", database_url]
    plain = {name: value for name, value in os.environ.items() if not name.startswith("HEADRACE_")}
    proved = await asyncio.to_thread(subprocess.run, audit, capture_output=True, text=True, check=False, env=plain)
    assert proved.returncode == 0, proved.stdout + proved.stderr


async def _ask_all(client: Client) -> None:
    slots = asyncio.Semaphore(AT_ONCE)

    async def ask(kind: Callable[[Client], Awaitable[None]]) -> None:
        async with slots:
            await kind(client)

    await asyncio.gather(*(ask(KINDS[number % len(KINDS)]) for number in range(REQUESTS)))


async def _records_are_there(platform: PayingPlatform) -> None:
    """Every job that an engine has seen has the usage record of its worker."""
    submitted = {each for engine in platform.engines for each in engine.submitted}
    async with asyncio.timeout(30):
        while submitted - {each["attempt"] for each in await platform.documents("usage")}:
            await asyncio.sleep(0.1)


async def _check(platform: PayingPlatform, seen: list[Seen]) -> None:
    jobs = {job["_id"]: job for job in await platform.documents("jobs")}
    ledger = {row["job"]: row for row in await platform.documents("ledger") if row["kind"] == "settle"}
    counted: dict[str, int] = defaultdict(int)
    recorded: dict[str, dict[str, Any]] = {}
    for record in await platform.documents("usage"):
        counted[record["job"]] += sum(engine.counted[record["attempt"]] for engine in platform.engines)
        recorded[record["job"]] = record["usage"]

    told: set[str] = set()
    for answer in {each.id: each for each in seen if each.ended}.values():
        assert answer.id is not None
        assert answer.usage is not None
        own = [job for id_, job in jobs.items() if id_ == answer.id or id_.startswith(f"{answer.id}-")]
        told.update(job["_id"] for job in own)
        assert _sum(job["final"] for job in own) == _told(answer.usage), answer
        assert _sum(recorded[job["_id"]] for job in own) == _told(answer.usage), answer
        if answer.kind != "stop":  # which an engine does not know: it counts on until it is told
            assert sum(counted[job["_id"]] for job in own) == answer.usage["completion_tokens"], answer
    assert told

    for id_, job in jobs.items():
        final, price = job["final"], job["price"]
        assert final["completion_tokens"] <= counted[id_]
        assert job["cost"] <= job["hold"]
        fresh = final["prompt_tokens"] - final["cached_tokens"]
        cost = fresh * price["input"] + final["cached_tokens"] * price["cached_input"]
        assert job["cost"] == cost + final["completion_tokens"] * price["output"]
        assert (ledger[id_]["amount"] if id_ in ledger else 0) == job["cost"]
    for left in seen:
        if left.id in jobs and not left.ended:
            assert jobs[left.id]["final"]["completion_tokens"] >= left.tokens, left
    refused = sum(each.kind in ("failing", "too long") and not each.ended for each in seen)
    free = sum(job["cost"] == 0 for job in jobs.values())
    assert free >= refused

    balance = await platform.balance()
    assert balance.spent == sum(row["amount"] for row in ledger.values())
    assert balance.available + balance.spent == CREDIT
    assert ledger.keys() <= jobs.keys()
    keyed = {each.id for each in seen if each.kind == "keyed" and each.ended}
    assert len(keyed) == sum(kind is Client.retries for kind in _asked())


def _asked() -> list[Callable[[Client], Awaitable[None]]]:
    return [KINDS[number % len(KINDS)] for number in range(REQUESTS)]


def _sum(usages: Any) -> tuple[int, int, int]:
    found = list(usages)
    names = ("prompt_tokens", "completion_tokens", "cached_tokens")
    prompt, completion, cached = (sum(usage[name] for usage in found) for name in names)
    return prompt, completion, cached


def _told(usage: dict[str, Any]) -> tuple[int, int, int]:
    return usage["prompt_tokens"], usage["completion_tokens"], usage["prompt_tokens_details"]["cached_tokens"]
