"""One run of a configuration: start it, run clients and faults, wait until it is idle, collect the evidence."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from auth_billing.audit.auditor import Auditor
from auth_billing.errors import StoreUnavailable
from auth_billing.store.audit import MongoAuditStore
from tests.chaos import books, history
from tests.chaos.checker import Run, Violation, check
from tests.chaos.client import SECRET_PROMPT, Clients
from tests.chaos.configurations import Configuration
from tests.chaos.counting_engine import read_counts
from tests.chaos.evidence import Evidence, Struck
from tests.chaos.nemeses import strike
from tests.chaos.schedule import Fault, schedule
from tests.chaos.stack import Stack, running

PATIENCE_SECONDS = 75.0
"""How long requests may take to end once no more begin and no fault is on."""
Say = Callable[[str], None]


@dataclass(frozen=True)
class Outcome:
    """One run, judged."""

    configuration: Configuration
    seed: int
    seconds: float
    run: Run
    violations: Sequence[Violation]


async def experiment(
    configuration: Configuration, seed: int, seconds: float, say: Say, keep: Path, *, mutation: str = ""
) -> Outcome:
    """Run a configuration; what it leaves behind is copied to a folder in `keep`.

    Raises:
        StartupError: the platform did not start.
    """
    async with running(configuration.size, mutation) as stack:
        say(f"{configuration.name}: running, for {seconds:.0f} s")
        run = await observe(stack, configuration, seed, seconds, say)
        violations = check(run)
        keep_what_happened(stack, run, violations, keep / configuration.name)
    return Outcome(configuration, seed, seconds, run, violations)


async def observe(stack: Stack, configuration: Configuration, seed: int, seconds: float, say: Say) -> Run:
    """Strike and ask on a running platform, wait until it is at rest, and join what is known."""
    clients = Clients(list(stack.ports.items()), stack.key, stack.model, seed, configuration.mix)
    stop, watch = asyncio.Event(), BalanceWatch(stack)
    watching = asyncio.create_task(watch.run())
    asking = asyncio.create_task(clients.run(configuration.clients, stop, PATIENCE_SECONDS))
    faults = schedule(seed, configuration.plans, seconds)
    striking = [asyncio.create_task(_at_its_time(stack, fault, say)) for fault in faults]
    await _load_for(seconds, asking, clients, say)
    struck = await asyncio.gather(*striking)
    stop.set()
    await asking
    rested = await at_rest(stack, configuration.rest)
    say(f"{configuration.name}: {'at rest' if rested else 'NOT at rest'}, {len(clients.history)} requests")
    watching.cancel()
    return Run(clients.history, await collect(stack, struck, watch.lowest), configuration.limits)


async def _load_for(seconds: float, asking: asyncio.Task[None], clients: Clients, say: Say) -> None:
    """Let time pass; a bug in a client ends it at once."""
    until = time.monotonic() + seconds
    while (left := until - time.monotonic()) > 0 and not asking.done():
        await asyncio.wait({asking}, timeout=min(10.0, left))
        ended = sum(request.ended > 0 for request in clients.history)
        say(f"  {seconds - max(0.0, until - time.monotonic()):3.0f} s: {ended} requests ended")
    if asking.done():
        await asking


async def _at_its_time(stack: Stack, fault: Fault, say: Say) -> Struck:
    await asyncio.sleep(fault.at)
    say(f"  {fault.at:5.1f} s: {fault.nemesis} {fault.target}, {fault.lasts:.1f} s")
    return await strike(stack, fault)


async def at_rest(stack: Stack, seconds: float) -> bool:
    """Wait until engines make nothing and the books hold nothing; false if it is not so in time."""
    with suppress(TimeoutError):
        async with asyncio.timeout(seconds):
            made = -1
            while True:
                before, made = made, sum(log.stat().st_size for log in stack.counts.iterdir())
                with suppress(StoreUnavailable):
                    if made == before and await books.at_rest(stack.access.connection):
                        return True
                await asyncio.sleep(1)
    return False


async def collect(stack: Stack, struck: Sequence[Struck], lowest: int) -> Evidence:
    """What is written down, of a platform at rest."""
    connection = stack.access.connection
    report = await Auditor(MongoAuditStore(connection), pause=0.5).audit()
    return Evidence(
        jobs=await books.read_jobs(connection),
        rows=await books.read_rows(connection),
        accounts=await books.read_accounts(connection),
        job_of_attempt=await books.read_job_of_attempt(connection),
        counted=read_counts(stack.counts.glob("*.jsonl")),
        struck=struck,
        lowest_available=lowest,
        leaks=leaks(stack),
        audit="; ".join(map(str, report.differences[:5])),
    )


def leaks(stack: Stack) -> list[str]:
    """Logs that have what no log may: keys, passwords, prompts (I9)."""
    secrets = {path.name: path.read_text().strip() for path in stack.processes.home.secrets.iterdir()}
    secrets |= {"API key": stack.key, "prompt": SECRET_PROMPT}
    found = []
    for log in [*stack.processes.home.log.glob("*.log*"), *(stack.home / "rabbitmq" / "log").glob("*")]:
        text = log.read_text(errors="replace")
        found += [f"{log.name} has the {name}" for name, secret in secrets.items() if secret and secret in text]
    return found


class BalanceWatch:
    """Looks at the accounts during a run: credit must never be below zero, not even for a moment (I6)."""

    def __init__(self, stack: Stack) -> None:
        self._stack = stack
        self.lowest = 0

    async def run(self) -> None:
        """Look once a second, until cancelled."""
        while True:
            with suppress(StoreUnavailable):
                accounts = await books.read_accounts(self._stack.access.connection)
                self.lowest = min([self.lowest, *(account.available for account in accounts)])
            await asyncio.sleep(1)


def keep_what_happened(stack: Stack, run: Run, violations: Sequence[Violation], folder: Path) -> None:
    """Logs, counts, history and verdict."""
    folder.mkdir(parents=True, exist_ok=True)
    for source in [*stack.processes.home.log.glob("*.log"), *stack.counts.glob("*.jsonl")]:
        (folder / source.name).write_bytes(source.read_bytes())
    history.write(run.requests, folder / "history.jsonl")
    lines = [*map(str, violations), "", *map(str, run.evidence.struck)]
    (folder / "violations.txt").write_text("\n".join(lines) + "\n")
