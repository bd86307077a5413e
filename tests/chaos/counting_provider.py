"""The provider behind the overflow proxy: counts as the workers' engines do, and records each token first.

It runs in the process of the run itself, which no fault strikes; the proxies before it are killed.
"""

from __future__ import annotations

import asyncio
import json
import re
import time
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from itertools import count
from pathlib import Path

from tests.fakes.scripted_upstream import Request, ScriptedUpstream, chunk, usage

_NUMBER = re.compile(r"request (\d+)")


@asynccontextmanager
async def provider(folder: Path, step_seconds: float) -> AsyncIterator[str]:
    """Run the provider; yield its base URL. `folder` is that of the engines' records."""
    numbers = count(1)
    with (folder / "provider.jsonl").open("a", buffering=1) as log:

        def write(line: list[object]) -> None:
            log.write(json.dumps(line, separators=(",", ":")) + "\n")

        async def script(request: Request) -> None:
            await _answer(request, f"provider-{next(numbers)}", step_seconds, write)

        async with ScriptedUpstream(script).running() as upstream:
            yield upstream.url


async def _answer(request: Request, name: str, step_seconds: float, write: Callable[[list[object]], None]) -> None:
    prompt = json.dumps(request.body["messages"])
    number = _NUMBER.search(prompt)
    write(["submit", name, int(number[1]) if number else -1, time.time()])
    asked, choices = request.body["max_completion_tokens"], request.body.get("n", 1)
    stop = min([int(each.split()[0]) for each in request.body.get("stop", [])], default=asked)
    await request.begin_stream()
    for position in range(min(asked, stop)):
        await asyncio.sleep(step_seconds)
        if request.disconnected.is_set():
            return
        write(["step", time.time(), [[name, choice, position] for choice in range(choices)]])
        await request.send_events(*(chunk(f"{position} ", choice=choice) for choice in range(choices)))
    reason = "length" if stop >= asked else "stop"
    ends = (chunk(choice=choice, finish=reason) for choice in range(choices))
    await request.send_events(*ends, usage(len(prompt), choices * min(asked, stop)), "[DONE]")
