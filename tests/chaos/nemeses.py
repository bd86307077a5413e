"""Nemeses: coroutines that inject a fault, let it last, and undo what does not end by itself.

Only faults that an operator or the environment can cause: signals, the broker's own command line, the network.
What a client should see of each is in docs/design/reliability-contract.md#faults; the checker judges.
"""

from __future__ import annotations

import asyncio
import signal
import subprocess
import time
from collections.abc import Awaitable, Callable, Mapping

import psutil

from infra.home.process_records import kill_group
from tests.chaos.evidence import Struck
from tests.chaos.schedule import Fault
from tests.chaos.stack import STORE, Stack
from tests.chaos.tcp_proxy import Mode
from tests.child_process import rabbitmqctl

BROKER = "rabbitmq"
SLOW_SECONDS = 0.5
"""What each message to the store, and each answer, takes longer."""
CTL_TRIES = 5
TOOL_TRIES = 500

Nemesis = Callable[[Stack, str, float], Awaitable[None]]
"""Strikes a process by name, for so many seconds."""


async def _kill(stack: Stack, name: str, _lasts: float) -> None:
    """kill -9 of a process and its children; the supervisor starts it again."""
    process = stack.process(name)
    if process is not None:
        kill_group(process.pid)
        await _back(stack, name, process.pid)


async def _kill_worker(stack: Stack, name: str, lasts: float) -> None:
    """kill -9 of a worker, as soon as another one is there: what is promised is that the others go on."""
    while not any(stack.is_ready(other) for other in stack.workers if other != name):
        await asyncio.sleep(0.1)
    await _kill(stack, name, lasts)


async def _kill_assistant(stack: Stack, name: str, lasts: float) -> None:
    """kill -9 of an assistant and the processes of its tools, as soon as another one is there."""
    while not any(stack.is_ready(other) for other in stack.assistants if other != name):
        await asyncio.sleep(0.1)
    await _kill(stack, name, lasts)


async def _kill_tool(stack: Stack, name: str, _lasts: float) -> None:
    """kill -9 of a process in which a tool of an assistant computes, as soon as there is one."""
    for _ in range(TOOL_TRIES):
        process = stack.process(name)
        try:
            tools = [] if process is None else process.children(recursive=True)
            if tools:
                tools[-1].send_signal(signal.SIGKILL)
                return
        except psutil.NoSuchProcess:
            pass
        await asyncio.sleep(0.02)


async def _freeze(stack: Stack, name: str, lasts: float) -> None:
    """SIGSTOP, later SIGCONT."""
    await _freeze_process(stack.process(name), lasts)


async def _freeze_engine(stack: Stack, name: str, lasts: float) -> None:
    """SIGSTOP of the engine in a living worker."""
    await _freeze_process(stack.engine(name), lasts)


async def _freeze_process(process: psutil.Process | None, lasts: float) -> None:
    if process is None:
        return
    try:
        process.suspend()
        try:
            await asyncio.sleep(lasts)
        finally:
            process.resume()
    except psutil.NoSuchProcess:
        return


async def _kill_engine(stack: Stack, name: str, _lasts: float) -> None:
    """kill -9 of the engine in a living worker."""
    engine = stack.engine(name)
    if engine is not None:
        engine.send_signal(signal.SIGKILL)


async def _restart(stack: Stack, name: str, _lasts: float) -> None:
    """SIGTERM, wait until it has drained, start."""
    await stack.restart(name)


async def _roll_workers(stack: Stack, _name: str, _lasts: float) -> None:
    """All workers, one after the other."""
    for name in stack.workers:
        await stack.restart(name)


async def _roll_gateways(stack: Stack, _name: str, _lasts: float) -> None:
    """All gateways, one after the other."""
    for name in stack.gateways:
        await stack.restart(name)


async def _partition(stack: Stack, name: str, lasts: float) -> None:
    """A black hole on a wire."""
    await _wire(stack, name, lasts, Mode.DROP)


async def _reset(stack: Stack, name: str, lasts: float) -> None:
    """All connections of a wire reset, and new ones too."""
    await _wire(stack, name, lasts, Mode.RESET)


async def _slow_store(stack: Stack, _name: str, lasts: float) -> None:
    """Everything to and from the store arrives late."""
    await _wire(stack, STORE, lasts, Mode.DELAY, delay=SLOW_SECONDS)


async def _cut_store(stack: Stack, _name: str, lasts: float) -> None:
    """Black-hole the network between all processes and the store."""
    await _wire(stack, STORE, lasts, Mode.DROP)


async def _wire(stack: Stack, name: str, lasts: float, mode: Mode, *, delay: float = 0.0) -> None:
    wire = stack.wires[name]
    wire.set(mode, delay=delay)
    try:
        await asyncio.sleep(lasts)
    finally:
        wire.set(Mode.PASS)


async def _restart_broker(stack: Stack, _name: str, lasts: float) -> None:
    """RabbitMQ stops in order, and comes back: `stop_app`, `start_app`."""
    await _ctl(stack, "stop_app")
    try:
        await asyncio.sleep(lasts)
    finally:
        await _ctl(stack, "start_app")


async def _memory_alarm(stack: Stack, _name: str, lasts: float) -> None:
    """RabbitMQ memory alarm: publishers are blocked."""
    await _alarm(
        stack, lasts, ("set_vm_memory_high_watermark", "absolute", "1MB"), ("set_vm_memory_high_watermark", "0.5")
    )


async def _disk_alarm(stack: Stack, _name: str, lasts: float) -> None:
    """RabbitMQ runs out of disk."""
    await _alarm(stack, lasts, ("set_disk_free_limit", "999999GB"), ("set_disk_free_limit", "100MB"))


async def _alarm(stack: Stack, lasts: float, raised: tuple[str, ...], cleared: tuple[str, ...]) -> None:
    await _ctl(stack, *raised)
    try:
        await asyncio.sleep(lasts)
    finally:
        await _ctl(stack, *cleared)


async def _ctl(stack: Stack, *arguments: str) -> None:
    """A broker that is just coming back refuses commands for a while."""
    for tries_left in reversed(range(CTL_TRIES)):
        try:
            await asyncio.to_thread(rabbitmqctl, stack.processes.broker, *arguments)
            return
        except subprocess.SubprocessError:  # it failed, or did not end in time
            if not tries_left:
                raise
            await asyncio.sleep(2)


async def _back(stack: Stack, name: str, killed: int) -> None:
    """Wait until a process that was killed is ready again."""
    while stack.record(name).pid == killed or not stack.is_ready(name):
        await asyncio.sleep(0.1)


def _one(name: str) -> Callable[[Stack], list[str]]:
    return lambda _stack: [name]


def _workers(stack: Stack) -> list[str]:
    return stack.workers


def _gateways(stack: Stack) -> list[str]:
    return stack.gateways


def _proxies(stack: Stack) -> list[str]:
    return stack.proxies


def _assistants(stack: Stack) -> list[str]:
    return stack.assistants


NEMESES: Mapping[str, tuple[Nemesis, Callable[[Stack], list[str]]]] = {
    "worker_kill": (_kill_worker, _workers),
    "worker_freeze": (_freeze, _workers),
    "worker_restart": (_restart, _workers),
    "workers_roll": (_roll_workers, _one("all workers")),
    "worker_partition": (_partition, _workers),
    "worker_reset": (_reset, _workers),
    "proxy_kill": (_kill, _proxies),
    "assistant_kill": (_kill_assistant, _assistants),
    "tool_kill": (_kill_tool, _assistants),
    "engine_kill": (_kill_engine, _workers),
    "engine_freeze": (_freeze_engine, _workers),
    "gateway_kill": (_kill, _gateways),
    "gateways_roll": (_roll_gateways, _one("all gateways")),
    "gateway_partition": (_partition, _gateways),
    "gateway_reset": (_reset, _gateways),
    "broker_restart": (_restart_broker, _one(BROKER)),
    "broker_kill": (_kill, _one(BROKER)),
    "broker_memory": (_memory_alarm, _one(BROKER)),
    "broker_disk": (_disk_alarm, _one(BROKER)),
    "store_kill": (_kill, _one(STORE)),
    "store_freeze": (_freeze, _one(STORE)),
    "store_slow": (_slow_store, _one(STORE)),
    "store_partition": (_cut_store, _one(STORE)),
    "billing_kill": (_kill, _one("billing")),
}
"""By name: what it does, and to which processes it may."""


async def strike(stack: Stack, fault: Fault) -> Struck:
    """Let a fault happen from strike to recovery."""
    nemesis, targets = NEMESES[fault.nemesis]
    names = targets(stack)
    name = names[fault.target % len(names)]
    began = time.time()
    await nemesis(stack, name, fault.lasts)
    return Struck(fault.nemesis, name, began, time.time())
