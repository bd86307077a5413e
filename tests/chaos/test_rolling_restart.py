"""All workers and both gateways are restarted in turn under load, behind a TCP load balancer, without a failed request.

Takes a minute or more, so only with `CHAOS_ROLLING=1` (`make chaos`). `tests/chaos/test_smoke.py` restarts one
worker.
"""

from __future__ import annotations

import asyncio
import time
from collections import Counter
from typing import Any

import openai

from tests.chaos.balancer import balancing
from tests.chaos.checker import Limits, Run, check, longest_pause
from tests.chaos.client import Clients, Mix
from tests.chaos.experiment import at_rest, collect
from tests.chaos.history import End
from tests.chaos.installed import marks_of_a_run, skip_unless_installed
from tests.chaos.stack import MODEL, Size, running

pytestmark = marks_of_a_run("CHAOS_ROLLING", "takes a minute: CHAOS_ROLLING=1, or make chaos", timeout=900)
PEOPLE = 24
TOKENS = (10, 40)
MIX = Mix({"stream": 12, "whole": 4, "choices": 2}, TOKENS)


async def ask_by_sdk(port: int, key: str, stop: asyncio.Event) -> int:
    """As programs do: the stock SDK with its pool of connections and its own two retries; how often it asked."""
    asked = 0
    async with openai.AsyncOpenAI(base_url=f"http://127.0.0.1:{port}/v1", api_key=key, timeout=60) as client:
        while not stop.is_set():
            messages: list[Any] = [{"role": "user", "content": "count"}]
            answer = await client.chat.completions.create(model=MODEL, messages=messages, max_tokens=5)
            assert answer.choices[0].message.content == "0 1 2 3 4 "
            asked += 1
    return asked


async def test_a_rolling_restart_is_not_noticed() -> None:
    skip_unless_installed()
    stop = asyncio.Event()
    async with running(Size(gateways=2, workers=2, capacity=32, step_seconds=0.02)) as stack:
        async with balancing(list(stack.ports.values())) as port:
            clients = Clients([("balancer", port)], stack.key, MODEL, 1, MIX)
            asking = asyncio.create_task(clients.run(PEOPLE, stop, 75))
            programs = [asyncio.create_task(ask_by_sdk(port, stack.key, stop)) for _ in range(2)]
            began = time.monotonic()
            for name in (*stack.workers, *stack.gateways):
                await asyncio.sleep(2)
                await stack.restart(name)
                print(f"{time.monotonic() - began:5.1f} s: {name} is back, {len(clients.history)} requests")
            seconds = time.monotonic() - began
            stop.set()
            await asking
            asked = await asyncio.gather(*programs)
        assert await at_rest(stack, 90)
        run = Run(clients.history, await collect(stack, [], 0), Limits(pause=60))
    print(f"{(len(run.requests) + sum(asked)) / seconds:.1f} requests/s, {sum(asked)} of them by the SDK")
    print("longest pause in a stream:", max(map(longest_pause, run.requests)))
    wrong = "\n".join(map(str, check(run)))
    assert not wrong, wrong
    assert Counter(each.end for each in run.requests) == {End.FINISHED: len(run.requests)}
