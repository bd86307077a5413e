"""The engine process of chaos runs: counts like `tests/fakes/counting_engine.py`, and records each token first.

Runs as the child of a real worker, in the product's own engine loop, so it can be killed, stopped and restarted
like any engine. Its records survive `kill -9`: a line of JSON is written to the kernel before a token is reported.
A prompt with `POISON` in it aborts the process, as a bug in a native kernel does.
"""

from __future__ import annotations

import json
import os
import re
import signal
import time
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from multiprocessing.connection import Connection
from pathlib import Path

from inference_worker.engine.engine_main import serve
from inference_worker.engine.engine_pipes import EventWriter
from inference_worker.engine_protocol import (
    EngineEvent,
    EngineLoad,
    GenerationRequest,
    Ready,
    RequestFailed,
    TokenEvent,
)
from inference_worker.settings import EngineSettings
from tests.chaos.evidence import Counted
from tests.fakes.counting_text import BEGIN, FIRST, NUMBERS, counting_load, counting_ready

POISON = "!!segv"
CONTEXT = 4096
_NUMBER = re.compile(rb"request (\d+)")


@dataclass
class _Running:
    request: GenerationRequest
    next: dict[int, int] = field(default_factory=dict)
    """Next position of each choice that goes on."""
    begun: int | None = None
    """The last number of a begun answer: it goes on with a space and the number after that."""

    def token(self, position: int) -> int:
        """The id at a position."""
        if self.begun is None:
            return FIRST + position % NUMBERS
        return FIRST + (self.begun + position) % NUMBERS if position else ord(" ")


class CountingSteps:
    """Implements `engine_main.SteppingEngine`. One step gives every running choice a token, in `step_seconds`."""

    def __init__(self, settings: EngineSettings, step_seconds: float, log: Path) -> None:
        self._capacity = settings.max_num_seqs
        self._step_seconds = step_seconds
        self._log = os.open(log, os.O_WRONLY | os.O_CREAT | os.O_APPEND)
        self._running: dict[str, _Running] = {}
        self._generated = self._prompted = self._steps = 0

    def ready(self) -> Ready:
        """See `SteppingEngine`."""
        return counting_ready(self._capacity, CONTEXT)

    def add(self, request: GenerationRequest) -> None:
        """See `SteppingEngine`."""
        prompt = bytes(each for each in request.prompt_ids if each < 256)
        number = _NUMBER.search(prompt)
        self._write(["submit", request.id, int(number[1]) if number else -1, time.time()])
        if POISON.encode() in prompt:
            os.kill(os.getpid(), signal.SIGKILL)
        delivered = request.delivered or [[]] * request.n
        going = [choice for choice in range(request.n) if choice not in request.ended]
        begun = _last_number(request.prompt_ids)
        self._running[request.id] = _Running(request, {choice: len(delivered[choice]) for choice in going}, begun)
        self._prompted += len(request.prompt_ids)

    def abort(self, request: str, choice: int | None = None) -> None:
        """See `SteppingEngine`."""
        running = self._running.get(request)
        if running is None:
            return
        if choice is None:
            running.next.clear()
        else:
            running.next.pop(choice, None)
        if not running.next:
            del self._running[request]

    def step(self) -> Sequence[EngineEvent]:
        """See `SteppingEngine`."""
        time.sleep(self._step_seconds)
        self._steps += 1
        going = [(each, choice) for each in self._running.values() if self._goes(each) for choice in each.next]
        going = going[: self._capacity]
        events = [self._next(running, choice) for running, choice in going]
        self._running = {id_: running for id_, running in self._running.items() if running.next}
        self._write(["step", time.time(), [[each.request, each.choice, each.position] for each in events]])
        self._generated += len(events)
        return events

    def has_work(self) -> bool:
        """See `SteppingEngine`."""
        return bool(self._running)

    def load(self) -> EngineLoad:
        """See `SteppingEngine`."""
        choices = sum(len(each.next) for each in self._running.values())
        return counting_load(
            choices, self._capacity, prompted=self._prompted, generated=self._generated, steps=self._steps
        )

    def failures(self) -> list[RequestFailed]:
        """See `SteppingEngine`."""
        return []

    def _goes(self, running: _Running) -> bool:
        """Whether a request gets a token in this step."""
        return True

    def _next(self, running: _Running, choice: int) -> TokenEvent:
        request, position = running.request, running.next[choice]
        last = position + 1 >= (request.sampling.max_tokens or CONTEXT - len(request.prompt_ids))
        if last:
            del running.next[choice]
        else:
            running.next[choice] = position + 1
        return TokenEvent(
            request=request.id,
            choice=choice,
            position=position,
            token_ids=[running.token(position)],
            finish_reason="length" if last else None,
        )

    def _write(self, line: list[object]) -> None:
        os.write(self._log, json.dumps(line, separators=(",", ":")).encode() + b"\n")


def _last_number(prompt_ids: Sequence[int]) -> int | None:
    """Where an answer stands that the prompt has the beginning of (`counting_text.TEMPLATE`)."""
    turn = bytes(each for each in prompt_ids[len(prompt_ids) - prompt_ids[::-1].index(BEGIN) :] if each < 256)
    _, _, begun = turn.partition(b"\n")
    return int(begun.split()[-1]) if begun.split() else None


def run(settings: EngineSettings, commands: Connection, reports: Connection, *, step_seconds: float, log: Path) -> None:
    """The child's main function (`engine_main.Target`)."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    log.with_suffix(".pid").write_text(str(os.getpid()))  # a worker has other children too
    engine, writer = CountingSteps(settings, step_seconds, log), EventWriter(reports)
    writer.write(engine.ready())
    try:
        serve(engine, commands, writer)
    except (EOFError, OSError):
        return  # the worker has gone


def read_counts(logs: Iterable[Path]) -> list[Counted]:
    """What engines have written, by attempt; the last line of a killed one may be cut off."""
    found: dict[str, Counted] = {}
    for line in (line for log in logs for line in log.read_bytes().splitlines()):
        try:
            kind, *rest = json.loads(line)
        except ValueError:
            continue
        if kind == "submit":
            attempt, number, at = rest
            found.setdefault(attempt, Counted(attempt, number)).submitted.append(at)
            continue
        at, tokens = rest
        for attempt, choice, position in tokens:
            counted = found[attempt]
            counted.positions.setdefault(choice, set()).add(position)
            counted.times.append(at)
    return list(found.values())
