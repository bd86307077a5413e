"""Sandboxed work: its limits, and what it can't reach. All of it also without capabilities and as another user."""

from __future__ import annotations

import asyncio
import os
import socket
import sys
import tempfile
import time
from dataclasses import replace
from pathlib import Path

import pytest

from runtime.sandbox import interpreter, process
from runtime.sandbox.child import NO_SOURCE
from runtime.sandbox.limits import LimitExceeded, SandboxUnavailable, WorkFailed, WorkLimits
from tests.fakes.hostile_work import ATTACKS

LIMITS = WorkLimits(64 * 2**20, cpu_seconds=20.0, output_bytes=2**24, message_bytes=2**24, wait_seconds=60.0)


async def messages(name: str, limits: WorkLimits = LIMITS, order: bytes = b"", source: int = NO_SOURCE) -> list[bytes]:
    return [each async for each in process.run(f"tests.fakes.hostile_work:{name}", limits, order, source)]


async def test_work_gets_its_order_and_its_source() -> None:
    with tempfile.TemporaryFile() as file:
        file.write(b"x" * 2**22)
        file.flush()
        assert await messages("echo", order=b"y" * 2**20, source=file.fileno()) == [b"y" * 2**20, b"x" * 2**22]
    assert await messages("echo", order=b"y") == [b"y", b""]


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
    left, right = socket.socketpair()
    with left, right:
        left.set_inheritable(True)
        environment, descriptors = await messages("show")
    assert b"secret" not in environment
    assert descriptors == b"[]"


@pytest.mark.parametrize(
    ("name", "limits", "exceeded"),
    [
        ("loop", replace(LIMITS, cpu_seconds=0.2), "CPU time"),
        ("sleep", replace(LIMITS, wait_seconds=1.0), "time"),
        ("allocate", LIMITS, "memory"),
        ("write", LIMITS, "output"),
        ("write_a_large_message", replace(LIMITS, message_bytes=2**19), "output"),
    ],
)
async def test_work_that_exceeds_a_limit_is_ended(name: str, limits: WorkLimits, exceeded: str) -> None:
    with pytest.raises(LimitExceeded, match=f"^{exceeded}$"):
        await messages(name, limits)


async def test_work_that_ignores_signals_is_ended_by_the_kernel() -> None:
    with pytest.raises(WorkFailed, match="-9"):
        await messages("stubborn_loop", replace(LIMITS, cpu_seconds=0.2))


@pytest.mark.parametrize("name", ["fail", "crash", "missing"])
async def test_work_that_fails_is_an_error(name: str) -> None:
    with pytest.raises(WorkFailed):
        await messages(name)


async def test_time_of_the_caller_is_not_counted() -> None:
    limits = replace(LIMITS, wait_seconds=5.0, output_bytes=2**40)
    running = process.run("tests.fakes.hostile_work:write", limits)
    began = time.monotonic()
    while time.monotonic() - began < 6.0:
        await anext(running)
        await asyncio.sleep(0.5)
    await running.aclose()


async def test_closing_ends_the_process() -> None:
    others = set(_children())  # of earlier tests in this process
    running = process.run("tests.fakes.hostile_work:write", replace(LIMITS, output_bytes=2**40))
    await anext(running)
    [child] = set(_children()) - others
    await running.aclose()
    assert child not in _children()


async def test_without_a_filter_nothing_runs(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(
        interpreter, "_START", "import os; os.uname = lambda: os.uname_result(['Plan9'] * 5); " + interpreter._START
    )
    with pytest.raises(SandboxUnavailable):
        await messages("echo")


async def test_a_filter_without_effect_is_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    without = "import runtime.sandbox.confinement as c; c._filter_system_calls = lambda: None; "
    started = interpreter._START.replace("from importlib", without + "from importlib", 1)
    monkeypatch.setattr(interpreter, "_START", started)
    with pytest.raises(SandboxUnavailable):
        await messages("echo")


async def test_neither_capabilities_nor_new_privileges_are_needed() -> None:
    code = f"""
import asyncio, ctypes, os, sys
sys.path[:] = {sys.path!r}
header, none = (ctypes.c_uint32 * 2)(0x20080522, 0), (ctypes.c_uint32 * 6)()
assert ctypes.CDLL(None).capset(header, none) == 0
assert ctypes.CDLL(None).prctl(38, 1, 0, 0, 0) == 0
from tests.runtime.sandbox.test_process import messages
print(asyncio.run(messages("attack", order=b"internet")), asyncio.run(messages("echo", order=b"y")))
"""
    child = await asyncio.create_subprocess_exec(sys.executable, "-c", code, stdout=asyncio.subprocess.PIPE)
    output, _ = await child.communicate()
    assert output.decode().strip() == "[b'PermissionError'] [b'y', b'']"


def _children() -> set[int]:
    return {int(each) for each in Path(f"/proc/self/task/{os.getpid()}/children").read_text().split()}
