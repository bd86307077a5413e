"""Measures how long work continues for a client that disconnects: from its disconnect to the engine's last token.

Real processes: a disconnect passes through gateway, RabbitMQ and worker before the engine sees it. Takes half a minute,
so only with `CHAOS_CANCELS=1` (`make chaos`); it prints the figures of docs/reliability.md. That an engine computes no
further step is tested in `tests/inference_worker/worker/test_engine_process.py`.
"""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import Iterable
from statistics import median

from tests.chaos.client import PATH
from tests.chaos.counting_engine import read_counts
from tests.chaos.evidence import Counted
from tests.chaos.experiment import at_rest
from tests.chaos.installed import marks_of_a_run, skip_unless_installed
from tests.chaos.stack import MODEL, Size, Stack, running
from tests.chaos.wire import Exchange

pytestmark = marks_of_a_run("CHAOS_CANCELS", "half a minute: CHAOS_CANCELS=1, or make chaos")

PLACES = 16
STEP_SECONDS = 0.02
WAVES = 3
"""As many clients as there are places, so often."""
TOKENS = 500
"""Length of each answer: ten seconds, unless it is cancelled."""
MOST_SECONDS = 1.0
"""docs/design/reliability-contract.md#F19."""


class Leavers:
    """Clients that ask for a long answer and hang up; half of them reset their connection."""

    def __init__(self, stack: Stack) -> None:
        self._stack = stack
        self.hung_up: dict[int, float] = {}
        """When, by the number of the request."""
        self._asked = 0

    async def ask(self, *, streamed: bool, tier: str = "default") -> tuple[int, Exchange]:
        """Ask; the number of the request, which is in its prompt too."""
        self._asked += 1
        messages = [{"role": "user", "content": f"request {self._asked}"}]
        body = {"model": MODEL, "messages": messages, "max_tokens": TOKENS, "stream": streamed, "service_tier": tier}
        headers = {"authorization": f"Bearer {self._stack.key}", "content-type": "application/json"}
        (port,) = self._stack.ports.values()
        return self._asked, await Exchange.post(port, PATH, headers, json.dumps(body).encode())

    async def wait_for_text(self, exchange: Exchange, pieces: int) -> None:
        """Read a stream until so many pieces have come."""
        received, (status, _) = b"", await exchange.head()
        assert status == 200
        async for chunk in exchange.data():
            received += chunk
            if received.count(b'"content"') > pieces:
                return

    async def leave(self, number: int, exchange: Exchange) -> None:
        """Hang up."""
        self.hung_up[number] = time.time()
        exchange.close(reset=bool(number % 2))

    async def leave_running(self, *, streamed: bool) -> int:
        """Hang up in the middle of the answer; the number of the request."""
        number, exchange = await self.ask(streamed=streamed)
        if streamed:
            await self.wait_for_text(exchange, 10 + number % 10)
        else:
            await asyncio.sleep(0.5 + number % 10 / 50)
        await self.leave(number, exchange)
        return number

    async def leave_in_line(self) -> list[int]:
        """Hang up while others have all places: of the worker's own line (another class) and of the queue's."""
        there = [await self.ask(streamed=True) for _ in range(PLACES)]
        await asyncio.gather(*(self.wait_for_text(exchange, 1) for _, exchange in there))
        kinds = [(streamed, tier) for streamed in (True, False) for tier in ("default", "flex")] * 4
        waiting = [await self.ask(streamed=streamed, tier=tier) for streamed, tier in kinds]
        await asyncio.sleep(0.5)
        await asyncio.gather(*(self.leave(*each) for each in waiting))
        await asyncio.sleep(MOST_SECONDS)  # no place is free before all of them are known to have gone
        await asyncio.gather(*(self.leave(*each) for each in there))
        return [number for number, _ in waiting]


async def test_an_engine_stops_when_the_client_has_gone() -> None:
    skip_unless_installed()
    async with running(Size(workers=1, capacity=PLACES, step_seconds=STEP_SECONDS)) as stack:
        leavers, left = Leavers(stack), {}
        for kind, streamed in (("streamed", True), ("not streamed", False)):
            waves = [
                await asyncio.gather(*(leavers.leave_running(streamed=streamed) for _ in range(PLACES)))
                for _ in range(WAVES)
            ]
            left[kind] = [number for wave in waves for number in wave]
        assert await at_rest(stack, 90)
        in_line = await leavers.leave_in_line()
        assert await at_rest(stack, 90)
        counted = {each.request: each for each in read_counts(stack.counts.glob("*.jsonl"))}
    for kind, numbers in left.items():
        assert counted.keys() >= set(numbers), "all had begun"
        print(f"{kind}: {figures(leavers, (counted[number] for number in numbers))}")
    made = [number for number in in_line if number in counted and counted[number].times]
    assert not made, f"tokens for clients that left while queued: {made}"
    print(f"in line: {len(in_line)} clients, no token")


def figures(leavers: Leavers, counted: Iterable[Counted]) -> str:
    """What was made after clients had hung up; fails if anything was too late."""
    late = [(each, [at - leavers.hung_up[each.request] for at in each.times]) for each in counted]
    tokens = [sum(at > 0 for at in times) for _, times in late]
    seconds = [max(0.0, *times) for _, times in late]
    assert max(seconds) <= MOST_SECONDS
    return (
        f"{len(late)} clients; {median(tokens):.0f} tokens after the hang-up in the median, {max(tokens)} at most; "
        f"the last one {1000 * median(seconds):.0f} ms after it in the median, {1000 * max(seconds):.0f} ms at most"
    )
