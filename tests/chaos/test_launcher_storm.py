"""`headrace up` with the real engine: a worker is killed every six seconds, and no accepted stream notices.

Takes some minutes, so only with `CHAOS_LAUNCHER=1` (`make chaos`).
"""

from __future__ import annotations

import asyncio
import os
import random
import signal
import time
from pathlib import Path

import openai
import pytest

from infra.launcher.readiness import free_port
from tests.chaos.installed import marks_of_a_run, skip_unless_installed
from tests.e2e.launcher_process import MODEL, Launched, new_home

pytestmark = marks_of_a_run("CHAOS_LAUNCHER", "takes minutes: CHAOS_LAUNCHER=1, or make chaos", timeout=900)

WORKERS = [f"worker-{number}" for number in (1, 2, 3)]
CLIENTS = 24
STORM_SECONDS, KILL_EVERY = 90.0, 6.0
TOKENS = 40
TOPICS = ["rivers", "bread", "the moon", "chess", "owls", "glass"]


async def answer(client: openai.AsyncOpenAI, topic: str) -> str | None:
    """Stream an answer and return its text; `None` if the request was refused before it was accepted."""
    try:
        stream = await client.completions.create(
            model=MODEL, prompt=f"A story about {topic}:", max_tokens=TOKENS, temperature=0.8, seed=7, stream=True
        )
    except openai.APIStatusError as error:
        assert error.status_code in (429, 503), error  # noqa: PT017 - refused, as an overloaded platform may
        return None
    return "".join([chunk.choices[0].text async for chunk in stream if chunk.choices])


async def kill_workers(home: Path, until: float) -> int:
    """Kill a random worker that runs, ready or not, every `KILL_EVERY` seconds; return the number of kills."""
    choice, kills = random.Random(23), 0
    while time.monotonic() < until:
        pid_files = [home / "run" / f"{name}.pid" for name in WORKERS]
        running = [path for path in pid_files if path.exists()]
        if running:
            os.kill(int(choice.choice(running).read_text()), signal.SIGKILL)
            kills += 1
        await asyncio.sleep(KILL_EVERY)
    return kills


async def storm(platform: Launched) -> tuple[int, int, list[str]]:
    """Return the numbers of finished and refused requests, and what went wrong."""
    given = platform.client()
    finished, refused, wrong = 0, 0, list[str]()
    async with openai.AsyncOpenAI(base_url=given.base_url, api_key=given.api_key, max_retries=0, timeout=400) as client:
        undisturbed = {topic: await answer(client, topic) for topic in TOPICS}
        until = time.monotonic() + STORM_SECONDS

        async def ask(number: int) -> None:
            nonlocal finished, refused
            topics = random.Random(number)
            while time.monotonic() < until:
                topic = topics.choice(TOPICS)
                try:
                    text = await answer(client, topic)
                except openai.APIError as error:
                    wrong.append(f"{topic}: {error!r}")
                    continue
                if text is None:
                    refused += 1
                    await asyncio.sleep(1)
                elif text == undisturbed[topic]:
                    finished += 1
                else:
                    wrong.append(f"{topic}: {text!r} instead of {undisturbed[topic]!r}")

        killing = asyncio.create_task(kill_workers(platform.home, until))
        await asyncio.gather(*map(ask, range(CLIENTS)))
        kills = await killing
    assert kills >= STORM_SECONDS / KILL_EVERY - 2
    return finished, refused, wrong


def test_accepted_streams_survive_a_dense_kill_storm(tmp_path_factory: pytest.TempPathFactory) -> None:
    skip_unless_installed()
    ports = {"HEADRACE_RABBITMQ_PORT": str(free_port()), "HEADRACE_RABBITMQ_CONSOLE_PORT": str(free_port())}
    options = {"HEADRACE_KV_CACHE_MEMORY": "256MiB", "HEADRACE_DTYPE": "float32"}
    arguments = ["up", "--workers", str(len(WORKERS))]
    platform = Launched(arguments, new_home(tmp_path_factory), free_port(), **ports, **options)
    try:
        platform.until_ready()
        finished, refused, wrong = asyncio.run(storm(platform))
        print(f"{finished} streams finished, {refused} requests refused, {len(wrong)} wrong")
        assert not wrong, "\n".join(wrong)
        assert finished >= CLIENTS
        audit = platform.headrace("audit")
        assert audit.returncode == 0, audit.stdout + audit.stderr
    finally:
        platform.end()
