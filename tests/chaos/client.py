"""Clients of a chaos run: most read to the end; some disconnect, reset the connection, read slowly or retry.

Each records its requests and what it received. They use the gateways in turn, as behind a TCP load balancer that skips
a gateway which refuses connections. The checker judges the answers.
"""

from __future__ import annotations

import asyncio
import json
import random
import time
from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any

from tests.chaos.counting_engine import POISON
from tests.chaos.history import Arrival, End, Request, Told
from tests.chaos.wire import Broken, Exchange

SECRET_PROMPT = "sesame-opens-the-door"
"""In every prompt, and never in a log."""
REFUSED_PAUSE = (0.3, 1.0)
"""Seconds until a client that was refused asks for something else."""
KEY_TRIES = 60
PATH = "/v1/chat/completions"


@dataclass
class Mix:
    """How often each act is drawn, and how long answers are (tokens)."""

    acts: Mapping[str, int]
    tokens: tuple[int, int] = (20, 200)


ASSISTED = {"calculate": 8, "whole calculate": 2, "stream": 3, "stops": 1, "leave": 1, "slow": 1, "keyed": 2}
"""What assistants are asked, which give one answer at a time."""
WHOLE = ("whole", "poison whole", "whole calculate")
"""Acts whose answers are not streamed."""
CALCULATES = ("calculate", "whole calculate")
EVERYBODY = {"stream": 12, "whole": 3, "choices": 2, "stops": 2, "leave": 2, "reset": 2, "slow": 1, "keyed": 2}


@dataclass
class Clients:
    """Asks `gateways` (name and port) until told to stop; at most one request at a time for each of `count` people."""

    gateways: Sequence[tuple[str, int]]
    key: str
    model: str
    seed: int
    mix: Mix
    history: list[Request] = field(default_factory=list)
    _turn: int = 0

    async def run(self, count: int, stop: asyncio.Event, patience: float) -> None:
        """Ask until `stop`; then what runs gets `patience` seconds to end."""
        people = [asyncio.create_task(self._ask_on(number, stop)) for number in range(count)]
        await stop.wait()
        _, late = await asyncio.wait(people, timeout=patience)
        for task in late:
            task.cancel()
        for done in await asyncio.gather(*people, return_exceptions=True):
            if isinstance(done, Exception):
                raise done

    async def _ask_on(self, number: int, stop: asyncio.Event) -> None:
        draw = random.Random(f"{self.seed}:client:{number}")
        acts, weights = list(self.mix.acts), list(self.mix.acts.values())
        while not stop.is_set():
            request = await self._act(draw, draw.choices(acts, weights)[0])
            if request.end not in (End.FINISHED, End.LEFT):
                with suppress(TimeoutError):
                    await asyncio.wait_for(stop.wait(), draw.uniform(*REFUSED_PAUSE))

    async def _act(self, draw: random.Random, act: str) -> Request:
        request = self._request(act, asked=draw.randint(*self.mix.tokens))
        do: dict[str, Callable[[random.Random, Request], Awaitable[Request]]] = {
            "stops": self._stops,
            "leave": self._leave,
            "reset": self._leave,
            "keyed": self._keyed,
        }
        request.choices = 2 if act == "choices" else 1
        request.streamed = act not in ("whole", "poison whole", "whole calculate") and not (
            act == "keyed" and draw.random() < 0.5
        )
        if act == "poison":
            request.innocent = False
        return await do.get(act, self._read)(draw, request)

    def _request(self, act: str, *, asked: int) -> Request:
        request = Request(number=len(self.history), act=act, asked=asked)
        self.history.append(request)
        return request

    async def _read(self, _draw: random.Random, request: Request) -> Request:
        return await self._exchange(request)

    async def _stops(self, draw: random.Random, request: Request) -> Request:
        request.stop_before = draw.randrange(5, request.asked - 1)  # its string has the number after it too
        return await self._exchange(request)

    async def _leave(self, draw: random.Random, request: Request) -> Request:
        return await self._exchange(request, leave_after=draw.randrange(0, request.asked))

    async def _keyed(self, draw: random.Random, request: Request) -> Request:
        """Ask, and ask the same again until it is answered: twice at least."""
        request.key = f"key-{self.seed}-{request.number}"
        last = await self._exchange(request)
        answers = int(last.end is End.FINISHED)
        for _ in range(KEY_TRIES):
            if answers >= 2 or (last.end is End.REFUSED and last.status < 409):
                break
            if last.end is not End.FINISHED:
                await asyncio.sleep(draw.uniform(0.5, 1.0))
            last = self._request("keyed", asked=request.asked)
            last.key, last.streamed = request.key, request.streamed
            await self._exchange(last, prompt_number=request.number)
            answers += last.end is End.FINISHED
        return last

    async def _exchange(
        self, request: Request, *, leave_after: int | None = None, prompt_number: int | None = None
    ) -> Request:
        request.began = time.time()
        body = json.dumps(self._body(request, request.number if prompt_number is None else prompt_number)).encode()
        exchange = await self._connect(request, body)
        if exchange is None:
            request.end, request.ended = End.UNREACHABLE, time.time()
            return request
        try:
            await self._answer(exchange, request, leave_after)
        except Broken as error:
            request.end, request.why = End.BROKEN, str(error)
        except asyncio.CancelledError:
            request.end = End.UNFINISHED
            raise
        finally:
            request.ended = time.time()
            exchange.close(reset=request.act == "reset")
        return request

    async def _connect(self, request: Request, body: bytes) -> Exchange | None:
        headers = {"authorization": f"Bearer {self.key}", "content-type": "application/json"}
        if request.key:
            headers["idempotency-key"] = request.key
        for _ in self.gateways:
            self._turn += 1
            request.gateway, port = self.gateways[self._turn % len(self.gateways)]
            with suppress(OSError):
                return await Exchange.post(port, PATH, headers, body, pause=0.2 if request.act == "slow" else 0.0)
        return None

    def _body(self, request: Request, number: int) -> dict[str, Any]:
        text = f"{SECRET_PROMPT}, request {number} {'' if request.innocent else POISON}"
        body: dict[str, Any] = {
            "model": self.model,
            "messages": _messages(request, text),
            "max_tokens": request.asked,
            "n": request.choices,
        }
        if request.stop_before is not None:
            body["stop"] = [f"{request.stop_before} {request.stop_before + 1}"]
        if request.streamed:
            body |= {"stream": True, "stream_options": {"include_usage": True}}
        return body

    async def _answer(self, exchange: Exchange, request: Request, leave_after: int | None) -> None:
        request.status, headers = await exchange.head()
        request.head = time.time()
        if request.status != 200:
            body = b"".join([chunk async for chunk in exchange.data()])
            request.end = End.REFUSED
            request.retry_after = float(headers["retry-after"]) if "retry-after" in headers else None
            _read_error(request, body)
        elif request.streamed:
            await _read_stream(exchange, request, leave_after)
        else:
            _read_whole(request, b"".join([chunk async for chunk in exchange.data()]))


def _messages(request: Request, text: str) -> list[dict[str, str]]:
    """One message; of a calculation, the last of a conversation."""
    if request.act not in CALCULATES:
        return [{"role": "user", "content": text}]
    question = f"What is {request.number + 2} * {request.asked}?"
    return [{"role": "system", "content": text}, {"role": "user", "content": question}]


def _read_error(request: Request, body: bytes) -> None:
    """OpenAI's error: an object with four keys, in a body or in an event."""
    try:
        error = json.loads(body)["error"]
        request.shaped = error.keys() == {"message", "type", "param", "code"} and isinstance(error["message"], str)
        request.code = error["code"] or ""
    except (ValueError, KeyError, TypeError):
        request.shaped = False


def _read_whole(request: Request, body: bytes) -> None:
    answer = json.loads(body)
    now = time.time()
    request.id, request.usage = answer["id"], _usage(answer["usage"])
    request.arrivals = [Arrival(now, each["index"], each["message"]["content"]) for each in answer["choices"]]
    request.finish = {each["index"]: each["finish_reason"] for each in answer["choices"]}
    request.steps = [_step(step) for each in answer["choices"] for step in each["message"].get("steps", ())]
    request.end = End.FINISHED


async def _read_stream(exchange: Exchange, request: Request, leave_after: int | None) -> None:
    unread = b""
    async for chunk in exchange.data():
        *frames, unread = (unread + chunk).split(b"\n\n")
        for frame in frames:
            _read_frame(frame, request)
        if leave_after is not None and sum(each.text.count(" ") for each in request.arrivals) >= leave_after:
            request.end = End.LEFT
            return
    if request.end is End.UNFINISHED:
        raise Broken("the stream ended without [DONE]")


def _read_frame(frame: bytes, request: Request) -> None:
    """One event: a piece, the usage, an error, or the end; comments keep the connection open."""
    data = b"".join(line[6:] for line in frame.splitlines() if line.startswith(b"data: "))
    if data == b"[DONE]":
        request.end = End.FINISHED
    elif data.startswith(b'{"error"'):
        request.end = End.FAILED
        _read_error(request, data)
    elif data:
        event = json.loads(data)
        request.id = event["id"]
        request.usage = _usage(event["usage"]) if event.get("usage") else request.usage
        for choice in event["choices"]:
            if text := choice["delta"].get("content"):
                request.arrivals.append(Arrival(time.time(), choice["index"], text))
            ended = [step for step in choice["delta"].get("steps", ()) if step["state"] != "running"]
            request.steps += [_step(step) for step in ended]
            if choice["finish_reason"] is not None:
                request.finish[choice["index"]] = choice["finish_reason"]


def _step(step: Mapping[str, Any]) -> str:
    return f"{step['kind']} {step['state']}"


def _usage(usage: Mapping[str, Any]) -> Told:
    details = usage.get("prompt_tokens_details") or {}
    calls = sum((part.get("units") or {}).get("call", 0) for part in usage.get("parts") or ())
    return Told(usage["prompt_tokens"], usage["completion_tokens"], details.get("cached_tokens", 0), calls)
