"""Work in children of a fork server: the same confinement and limits as in a fresh interpreter."""

from __future__ import annotations

import asyncio
import os
import signal
import tempfile
from collections.abc import AsyncIterator
from dataclasses import replace

import psutil
import pytest

from runtime.sandbox.child import NO_SOURCE
from runtime.sandbox.fork_server import ForkServer
from runtime.sandbox.limits import LimitExceeded, WorkFailed, WorkLimits
from tests.fakes.hostile_work import ATTACKS

LIMITS = WorkLimits(64 * 2**20, cpu_seconds=20.0, output_bytes=2**24, message_bytes=2**24, wait_seconds=60.0)


async def messages(name: str, limits: WorkLimits = LIMITS, order: bytes = b"", source: int = NO_SOURCE) -> list[bytes]:
    server = ForkServer(f"tests.fakes.hostile_work:{name}")
    try:
        return [each async for each in server.run(limits, order, source)]
    finally:
        server.close()


@pytest.fixture
async def echo() -> AsyncIterator[ForkServer]:
    server = ForkServer("tests.fakes.hostile_work:echo")
    yield server
    server.close()


async def reply(server: ForkServer, order: bytes) -> bytes:
    [found, _source] = [each async for each in server.run(LIMITS, order)]
    return found


async def test_one_process_serves_many_orders(echo: ForkServer) -> None:
    orders = [bytes([number]) * 2**20 for number in range(6)]
    assert await asyncio.gather(*(reply(echo, each) for each in orders)) == orders
    first = echo.pid
    assert await reply(echo, b"x") == b"x"
    assert echo.pid == first


async def test_work_may_be_made_of_an_argument() -> None:
    server = ForkServer("tests.fakes.hostile_work:named", "echo")
    assert await reply(server, b"x") == b"x"
    server.close()


async def test_work_gets_its_source_from_its_start(echo: ForkServer) -> None:
    with tempfile.TemporaryFile() as file:
        file.write(b"x" * 2**20)
        file.flush()
        for _ in range(2):
            assert [each async for each in echo.run(LIMITS, b"y", file.fileno())] == [b"y", b"x" * 2**20]


@pytest.mark.parametrize("name", ATTACKS)
async def test_work_can_not(name: str) -> None:
    with tempfile.TemporaryFile() as file:
        file.write(b"source")
        file.flush()
        [refused] = await messages("attack", order=name.encode(), source=file.fileno())
        file.seek(0)
        assert file.read() == b"source"
    assert refused == (b"OSError" if name == "write to its source" else b"PermissionError")  # it is open for reading


async def test_work_has_no_environment_and_no_other_files(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HEADRACE_CONTROL_SECRET", "secret")
    environment, descriptors = await messages("show")
    assert b"secret" not in environment
    assert descriptors == b"[]"


@pytest.mark.parametrize(
    ("name", "limits", "exceeded"),
    [
        ("loop", replace(LIMITS, cpu_seconds=0.2), "CPU time"),
        ("loop", replace(LIMITS, cpu_seconds=2.0, busy_seconds=0.6), "CPU time"),
        ("sleep", replace(LIMITS, wait_seconds=1.0), "time"),
        ("allocate", LIMITS, "memory"),
        ("write", LIMITS, "output"),
    ],
)
async def test_work_that_exceeds_a_limit_is_ended(name: str, limits: WorkLimits, exceeded: str) -> None:
    with pytest.raises(LimitExceeded, match=f"^{exceeded}$"):
        await messages(name, limits)


async def test_work_that_got_no_cpu_time_is_not_overdue() -> None:
    with pytest.raises(LimitExceeded, match=r"^time$"):  # it sleeps: of the wait, not of `busy_seconds`
        await messages("sleep", replace(LIMITS, wait_seconds=1.5, busy_seconds=0.1))


@pytest.mark.parametrize("name", ["fail", "crash", "missing"])
async def test_work_that_fails_is_an_error(name: str) -> None:
    with pytest.raises(WorkFailed):
        await messages(name)


async def test_a_killed_server_is_started_again(echo: ForkServer) -> None:
    assert await reply(echo, b"x") == b"x"
    killed = echo.pid
    assert killed is not None
    os.kill(killed, signal.SIGKILL)
    while echo.pid is not None:
        await asyncio.sleep(0.01)
    assert await reply(echo, b"y") == b"y"
    assert echo.pid != killed


async def test_an_idle_server_ends() -> None:
    server = ForkServer("tests.fakes.hostile_work:echo", idle_seconds=0.05)
    assert await reply(server, b"x") == b"x"
    process = psutil.Process(server.pid)
    while process.is_running():
        await asyncio.sleep(0.01)
    assert await reply(server, b"y") == b"y"
    server.close()
