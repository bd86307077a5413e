"""`headrace up` from outside: every process real, over a private RabbitMQ, with two workers.

The tests stand in the order in which they use the platform; the last one ends it.
"""

from __future__ import annotations

import asyncio
import base64
import json
import os
import signal
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import anthropic
import ollama
import openai
import psutil
import pytest

from infra.home.credentials import password_file
from infra.home.home import Home
from infra.launcher.processes import worker_name
from infra.launcher.readiness import free_port
from infra.rabbitmq.node import BrokerNotInstalled, find_program
from runtime.lifecycle import EXIT_CANNOT_START
from tests.e2e.launcher_process import MODEL, Launched, until

pytestmark = [pytest.mark.e2e, pytest.mark.model, pytest.mark.store, pytest.mark.rabbitmq]

STREAMS = 64
TOPICS = ["rivers", "bread", "the moon", "chess", "owls", "glass", "tea", "snow"]


@pytest.fixture(scope="module")
def console_port() -> int:
    return free_port()


@pytest.fixture(scope="module")
def platform(e2e_home: Path, console_port: int) -> Iterator[Launched]:
    """A ready `headrace up` with two workers."""
    try:
        find_program("rabbitmq-server")
    except BrokerNotInstalled as error:
        pytest.fail(str(error)) if os.environ.get("CI") else pytest.skip(str(error))
    launched = Launched(
        ["up", "--workers", "2"],
        e2e_home,
        free_port(),
        HEADRACE_RABBITMQ_PORT=str(free_port()),
        HEADRACE_RABBITMQ_CONSOLE_PORT=str(console_port),
        HEADRACE_KV_CACHE_MEMORY="512MiB",
        HEADRACE_DTYPE="float32",
    )
    try:
        launched.until_ready()
        yield launched
    finally:
        launched.end()


def pid_of(platform: Launched, name: str) -> int:
    """Return the process id; 0 while there is none."""
    try:
        return int((platform.home / "run" / f"{name}.pid").read_text())
    except FileNotFoundError:
        return 0


def state_of(platform: Launched, name: str) -> str:
    path = platform.home / "run" / f"{name}.json"
    return str(json.loads(path.read_text())["state"]) if path.exists() else "none"


def queues(platform: Launched, port: int) -> list[dict[str, Any]]:
    """Return the queues as the management API lists them."""
    password = password_file(Home(platform.home), "admin").read_text().strip()
    token = base64.b64encode(f"admin:{password}".encode()).decode()
    request = urllib.request.Request(
        f"http://127.0.0.1:{port}/api/queues/headrace", headers={"Authorization": f"Basic {token}"}
    )
    with urllib.request.urlopen(request, timeout=10) as response:
        return json.load(response)


def metric(platform: Launched, process: str, name: str) -> float:
    """Return the first value of a metric of a process."""
    status = str(json.loads((platform.home / "run" / f"{process}.json").read_text())["status_url"])
    with urllib.request.urlopen(status.replace("/status", "/metrics"), timeout=10) as response:
        lines = response.read().decode().splitlines()
    return float(next(line for line in lines if line.startswith(name)).split()[-1])


def question(number: int) -> str:
    return f"Write {number % 5 + 1} short words about {TOPICS[number % len(TOPICS)]}. Number {number}."


async def ask(client: openai.AsyncOpenAI, number: int) -> tuple[str, int, int]:
    """Run one greedy stream; return its text, prompt tokens and generated tokens."""
    stream = await client.chat.completions.create(
        model=MODEL,
        messages=[{"role": "user", "content": question(number)}],
        temperature=0,
        max_tokens=8 + number % 9,
        stream=True,
        stream_options={"include_usage": True},
    )
    text, usage = "", None
    async for chunk in stream:
        text += "".join(choice.delta.content or "" for choice in chunk.choices)
        usage = chunk.usage or usage
    assert usage is not None
    return text, usage.prompt_tokens, usage.completion_tokens


def async_client(platform: Launched) -> openai.AsyncOpenAI:
    known = platform.client()
    return openai.AsyncOpenAI(base_url=known.base_url, api_key=known.api_key, max_retries=0, timeout=200)


def test_every_process_has_a_pid_file_and_a_line_in_ps(platform: Launched) -> None:
    shown = platform.headrace("ps").stdout
    for name in ("rabbitmq", "store", "billing", "gateway-1", "worker-1", "worker-2"):
        assert psutil.pid_exists(pid_of(platform, name)), name
        assert name in shown
    assert f"{MODEL} on cpu: 0 running, 0 waiting, KV 0%" in shown
    assert psutil.Process(pid_of(platform, "rabbitmq")).name() == "beam.smp"


def test_the_banner_has_the_console_and_its_password_file(platform: Launched, console_port: int) -> None:
    assert f"http://127.0.0.1:{console_port}/" in platform.output
    assert str(password_file(Home(platform.home), "admin")) in platform.output
    names = {queue["name"] for queue in queues(platform, console_port)}
    assert {f"hr.job.{MODEL}.{tier}.v1" for tier in ("priority", "default", "flex")} <= names


def test_the_link_in_the_banner_is_for_the_owner(platform: Launched) -> None:
    token = platform.output.partition("#invitation=")[2].split()[0]
    with urllib.request.urlopen(f"http://127.0.0.1:{platform.port}/api/invitations/{token}", timeout=20) as shown:
        assert json.load(shown)["role"] == "owner"


def test_other_vendors_clients_get_the_same_answer(platform: Launched) -> None:
    one = platform.client()
    url = str(one.base_url).rstrip("/").removesuffix("/v1")
    asked: Any = [{"role": "user", "content": question(1)}]
    answer = one.chat.completions.create(model=MODEL, messages=asked, temperature=0, max_tokens=12)
    with ollama.Client(url, headers={"Authorization": f"Bearer {one.api_key}"}) as of_ollama:
        chunks = list(of_ollama.chat(MODEL, asked, options={"temperature": 0, "num_predict": 12}, stream=True))
    assert "".join(chunk.message.content or "" for chunk in chunks) == answer.choices[0].message.content
    greedy: Any = {"extra_body": {"temperature": 0}}
    with (
        anthropic.Anthropic(base_url=url, api_key=one.api_key, max_retries=0) as of_anthropic,
        of_anthropic.messages.stream(model=MODEL, messages=asked, max_tokens=12, **greedy) as stream,
    ):
        assert "".join(stream.text_stream) == answer.choices[0].message.content


async def test_an_answer_is_searched_for(platform: Launched) -> None:
    async with async_client(platform) as client:
        answer = await client.chat.completions.create(
            model=MODEL,
            messages=[{"role": "user", "content": "What is 2 + 2? Answer with a number."}],
            max_tokens=16,
            extra_body={"test_time_compute": {"method": "self_consistency", "n": 4}},
        )
    steps = getattr(answer.choices[0].message, "steps")  # noqa: B009 - an extension
    assert {step["kind"] for step in steps} == {"search"}
    assert answer.usage is not None
    [part] = getattr(answer.usage, "parts")  # noqa: B009
    assert part["completion_tokens"] + answer.usage.completion_tokens == steps[-1]["data"]["generated"]


async def test_64_concurrent_streams_equal_single_ones(platform: Launched, console_port: int) -> None:
    async with async_client(platform) as client:
        together = await asyncio.gather(*(ask(client, number) for number in range(STREAMS)))
        alone = [await ask(client, number) for number in range(STREAMS)]
    assert together == alone  # bit for bit the same states (ADR 0088)
    assert all(0 < tokens <= 8 + number % 9 for number, (_, _, tokens) in enumerate(together))
    # The management API's figures are some seconds old.
    until(lambda: all(queue.get("messages", 1) == 0 for queue in queues(platform, console_port)), 60)
    assert all(queue["messages_unacknowledged"] == 0 for queue in queues(platform, console_port))


def test_both_workers_get_jobs(platform: Launched) -> None:
    for number in (1, 2):
        assert metric(platform, worker_name(number), "headrace_generation_tokens_total{") > 0


LONG = 1000
"""Tokens of a stream that is long enough to still run when the worker is killed."""


async def long_stream(client: openai.AsyncOpenAI, number: int, begun: asyncio.Semaphore) -> tuple[str, Any, float]:
    """Run one greedy stream of `LONG` tokens; return its text, usage, and longest pause in seconds."""
    loop = asyncio.get_running_loop()
    stream = await client.completions.create(
        model=MODEL,
        prompt=f"A long list of numbers: {number}, {number + 1}, {number + 2},",
        temperature=0,
        max_tokens=LONG,
        stream=True,
        stream_options={"include_usage": True},
        extra_body={"ignore_eos": True},
    )
    text, usage, pause, last, chunks = "", None, 0.0, loop.time(), 0
    async for chunk in stream:
        now = loop.time()
        pause, last, chunks = max(pause, now - last if chunks else 0.0), now, chunks + 1
        text += "".join(choice.text for choice in chunk.choices)
        usage = chunk.usage or usage
        if chunks == 5:
            begun.release()
    if chunks < 5:
        begun.release()
    return text, usage, pause


async def test_streams_survive_a_killed_worker_which_is_restarted(platform: Launched) -> None:
    """docs/design/reliability-contract.md#F1: the same HTTP responses continue, without error or double charge."""
    begun = asyncio.Semaphore(0)
    async with async_client(platform) as client:
        whole = [await long_stream(client, number, begun) for number in range(4)]
        for _ in range(4):
            await begun.acquire()
        streams = [asyncio.create_task(long_stream(client, number, begun)) for number in range(4)]
        for _ in range(4):
            await begun.acquire()
        before = pid_of(platform, "worker-2")
        os.kill(before, signal.SIGKILL)
        survived = await asyncio.gather(*streams)
    print("longest pauses with and without the kill:", [s[2] for s in survived], [w[2] for w in whole])
    assert [text for text, _, _ in survived] == [text for text, _, _ in whole]  # bit for bit the same states (ADR 0088)
    for (_, usage, _), (_, expected, _) in zip(survived, whole, strict=True):
        assert (usage.prompt_tokens, usage.completion_tokens) == (expected.prompt_tokens, LONG)
    assert metric(platform, "gateway-1", "headrace_jobs_resumed_total") >= 1
    until(lambda: pid_of(platform, "worker-2") not in (0, before) and state_of(platform, "worker-2") == "ready", 120)
    assert "worker-2 was ended by SIGKILL" in platform.output


async def test_a_stopped_worker_drains_its_streams(platform: Launched) -> None:
    async with async_client(platform) as client:
        streams = [asyncio.create_task(ask(client, number)) for number in range(12)]
        await asyncio.wait(streams, return_when=asyncio.FIRST_COMPLETED)
        stopped = await asyncio.to_thread(platform.headrace, "stop", "worker-2")
        assert "worker-2: stopped" in stopped.stdout
        texts = await asyncio.gather(*streams)
    assert all(tokens > 0 for _, _, tokens in texts)
    assert state_of(platform, "worker-2") == "stopped"
    assert pid_of(platform, "worker-2") == 0


def test_a_stopped_worker_stays_stopped_until_started(platform: Launched) -> None:
    assert "worker-2: ready" in platform.headrace("start", "worker-2").stdout


def test_a_second_up_scales(platform: Launched) -> None:
    more = platform.headrace("up", "--workers", "3")
    assert "3 workers: 1 started, 0 drained" in more.stdout, more.stderr
    assert state_of(platform, "worker-3") == "ready"
    fewer = platform.headrace("up", "--workers", "1")
    assert "1 workers: 0 started, 2 drained" in fewer.stdout, fewer.stderr
    assert state_of(platform, "worker-3") == "none"
    assert platform.client().completions.create(model=MODEL, prompt="1, 2,", max_tokens=2).usage is not None


def test_serve_in_the_same_home_says_what_runs(platform: Launched) -> None:
    done = platform.headrace("serve", "--port", str(free_port()))
    assert done.returncode == EXIT_CANNOT_START
    assert "`headrace up` already runs" in done.stderr


def test_a_killed_launcher_takes_all_processes_with_it_and_can_be_started_again(platform: Launched) -> None:
    left = pid_of(platform, "gateway-1")
    platform.process.kill()
    platform.process.wait()
    platform.leaves_nothing()
    again = Launched(
        ["up", "--workers", "1"],
        platform.home,
        platform.port,
        **{name: value for name, value in platform.environment.items() if name.startswith("HEADRACE_")},
    )
    try:
        until(lambda: pid_of(again, "gateway-1") not in (0, left), 120, lambda: again.output)
        until(lambda: state_of(again, "worker-1") == "ready", 120, lambda: again.output)
        assert again.interrupt() == 0
        again.leaves_nothing()
        assert list((again.home / "run").glob("*.pid")) == []
    finally:
        again.end()
