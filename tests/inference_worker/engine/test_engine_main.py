"""Tests of the engine process: commands are read between steps, and a slow parent does not delay steps."""

from __future__ import annotations

import os
import platform
import select
import time
from collections.abc import Callable
from multiprocessing import Pipe
from multiprocessing.connection import Connection
from pathlib import Path
from threading import Semaphore, Thread
from types import SimpleNamespace

import msgspec
import pytest
import torch

from inference_worker.engine import engine_main
from inference_worker.engine.engine_main import SPIN_COUNT, EngineLoop, run_engines, serve, serve_engines
from inference_worker.engine.engine_pipes import MAX_BUFFERED_EVENTS, EventWriter, ReportBuffer
from inference_worker.engine.native.library import usable_instructions
from inference_worker.engine_protocol import (
    Abort,
    Command,
    EngineLoad,
    Report,
    Shutdown,
    StartFailed,
    StepReport,
    TokenEvent,
)
from inference_worker.settings import EngineSettings, Instructions
from tests.inference_worker.worker.test_engine_process import EchoEngine, request

STEPS = 8_000
"""More than a pipe has room for."""


def event(token: int) -> TokenEvent:
    return TokenEvent(request="a", choice=0, position=token, token_ids=[token], finish_reason=None)


def read_report(pipe: Connection) -> StepReport:
    assert pipe.poll(20)
    report = msgspec.msgpack.decode(pipe.recv_bytes(), type=Report)
    assert isinstance(report, StepReport)
    return report


def tokens(pipe: Connection, count: int) -> tuple[list[int], int]:
    """Return the next `count` tokens, and the number of reports that they came in."""
    got: list[int] = []
    reports = 0
    while len(got) < count:
        for entry in read_report(pipe).events:
            assert isinstance(entry, TokenEvent)
            got += entry.token_ids
        reports += 1
    return got, reports


class LockstepEngine(EchoEngine):
    """Steps when the test allows it; `computed`: the requests of each step when it began."""

    def __init__(self) -> None:
        super().__init__()
        self.computed: list[set[str]] = []
        self.began, self.go = Semaphore(0), Semaphore(0)

    def step(self) -> list[TokenEvent]:
        self.computed.append(set(self.left))
        self.began.release()
        self.go.acquire()
        return super().step()


def test_a_cancelled_request_is_in_no_step_after_the_one_that_is_being_computed() -> None:
    """docs/design/queue-topology.md#cancel: after an abort at any moment of a step, the next step omits the request."""
    engine, encoder = LockstepEngine(), msgspec.msgpack.Encoder()
    (commands, command_pipe), (_reports, report_pipe) = Pipe(duplex=False), Pipe(duplex=False)
    loop = Thread(target=serve, args=(engine, commands, EventWriter(report_pipe)), daemon=True)
    for command in (request("left", [1] * 50), request("stays", [2] * 4)):
        command_pipe.send_bytes(encoder.encode(command))
    loop.start()
    for _ in range(2):
        assert engine.began.acquire(timeout=20)
        engine.go.release()
    assert engine.began.acquire(timeout=20)  # the third step is being computed
    command_pipe.send_bytes(encoder.encode(Abort(request="left")))
    command_pipe.send_bytes(encoder.encode(request("comes", [3])))
    for _ in range(2):
        engine.go.release()
    assert engine.began.acquire(timeout=20)
    command_pipe.send_bytes(encoder.encode(Shutdown()))
    loop.join(timeout=20)
    assert engine.computed == [{"left", "stays"}] * 3 + [{"stays", "comes"}]


class InterruptedEngine(EchoEngine):
    """An engine whose steps are interrupted by commands; `meanwhile` has one action per step.

    `computed`: the requests of each step; `within`: those known after its interruption.
    """

    def __init__(self, *meanwhile: Callable[[], None]) -> None:
        super().__init__()
        self.meanwhile = list(meanwhile)
        self.computed: list[set[str]] = []
        self.within: list[set[str]] = []

    def computes(self, request: str) -> bool:
        return request in self.computed[-1]

    def enable_step_interrupts(
        self, commands: int, receive: Callable[[], None], emit: Callable[[list[TokenEvent]], None]
    ) -> None:
        self.commands, self.receive, self.emit = commands, receive, emit

    def pause(self) -> float:
        return 0.0

    def step(self) -> list[TokenEvent]:
        before = set(self.left)
        self.computed.append(before)
        self.meanwhile.pop(0)()
        if select.select([self.commands], [], [], 0)[0]:
            self.receive()
            self.within.append(set(self.left))
            self.emit([self._next(request) for request in list(self.left) if request not in before])
        return [self._next(request) for request in list(self.left) if request in before]


def test_commands_are_applied_within_a_step_but_those_for_what_it_computes() -> None:
    encoder = msgspec.msgpack.Encoder()
    (commands, command_pipe), (reader, report_pipe) = Pipe(duplex=False), Pipe(duplex=False)

    def write(*words: Command) -> None:
        for word in words:
            command_pipe.send_bytes(encoder.encode(word))

    engine = InterruptedEngine(
        # A request that the step computes is aborted and starts over after it; another's commands overtake that.
        lambda: write(request("comes", [3]), Abort(request="left"), request("left", [5, 6]), request("goes", [8, 9])),
        lambda: write(
            *(request("late", [6]), Abort(request="late"), Abort(request="goes"), request("more", [1])),
            *(Shutdown(), request("never", [7])),
        ),
    )
    write(request("left", [1, 2]))
    serve(engine, commands, EventWriter(report_pipe))
    assert engine.computed == [{"left"}, {"left", "goes"}]
    assert engine.within == [{"left", "comes", "goes"}, {"left", "goes", "more"}]
    reports = [{event.request: event.token_ids for event in read_report(reader).events} for _ in range(4)]  # type: ignore[union-attr]
    assert reports == [{"comes": [3], "goes": [8]}, {"left": [1]}, {"more": [1]}, {"goes": [9], "left": [5]}]


class PausingEngine(InterruptedEngine):
    """An engine that would pause for minutes before each step; `paused` is released whenever it is asked."""

    def __init__(self) -> None:
        super().__init__(*[lambda: None] * 2)
        self.paused = Semaphore(0)

    def pause(self) -> float:
        self.paused.release()
        return 600.0


def test_a_command_ends_a_pause_between_two_steps() -> None:
    (commands, command_pipe), (reader, report_pipe) = Pipe(duplex=False), Pipe(duplex=False)
    engine = PausingEngine()
    loop = Thread(target=serve, args=(engine, commands, EventWriter(report_pipe)), daemon=True)
    command_pipe.send_bytes(msgspec.msgpack.encode(request("left", [1, 2])))
    loop.start()
    assert tokens(reader, 1)[0] == [1]
    assert engine.paused.acquire(timeout=20)
    command_pipe.send_bytes(msgspec.msgpack.encode(request("comes", [3])))
    assert tokens(reader, 2)[0] == [2, 3]
    command_pipe.send_bytes(msgspec.msgpack.encode(Shutdown()))
    loop.join(timeout=20)
    assert not loop.is_alive()


def test_a_parent_exit_during_a_step_is_noticed_after_it() -> None:
    (commands, command_pipe), (reader, report_pipe) = Pipe(duplex=False), Pipe(duplex=False)

    def leave() -> None:
        command_pipe.send_bytes(msgspec.msgpack.encode(request("comes", [3, 4])))
        command_pipe.close()
        reader.close()

    engine = InterruptedEngine(leave)
    command_pipe.send_bytes(msgspec.msgpack.encode(request("left", [1, 2])))
    with pytest.raises(BrokenPipeError):
        serve(engine, commands, EventWriter(report_pipe))
    assert engine.within == [{"left", "comes"}]
    assert [len(ids) for ids in engine.left.values()] == [1, 1]  # the step was computed to its end


def test_outcomes_of_steps_are_merged_while_the_parent_does_not_read() -> None:
    reader, writer = Pipe(duplex=False)
    buffer = ReportBuffer(EventWriter(writer))
    for step in range(STEPS):
        buffer.put([event(step)], [], EngineLoad(steps=step))
    last = Thread(target=buffer.flush)
    last.start()
    got, reports = tokens(reader, STEPS)
    last.join()
    assert got == list(range(STEPS))
    assert reports < STEPS / 2


def test_a_step_waits_when_too_many_events_are_buffered() -> None:
    reader, writer = Pipe(duplex=False)
    buffer = ReportBuffer(EventWriter(writer))
    many = MAX_BUFFERED_EVENTS * 2
    made = []

    def steps() -> None:
        for step in range(many):
            buffer.put([event(step)], [], EngineLoad(steps=step))
            made.append(step)
        buffer.flush()

    engine = Thread(target=steps)
    engine.start()
    engine.join(timeout=1)
    assert len(made) < many
    assert tokens(reader, many)[0] == list(range(many))
    engine.join()


def test_an_idle_engine_flushes_buffered_events() -> None:
    (commands, command_pipe), (reader, report_pipe) = Pipe(duplex=False), Pipe(duplex=False)
    engine, encoder = EchoEngine(), msgspec.msgpack.Encoder()
    command_pipe.send_bytes(encoder.encode(request("a", list(range(STEPS)))))
    loop = Thread(target=serve, args=(engine, commands, EventWriter(report_pipe)), daemon=True)
    loop.start()
    while engine.steps < STEPS:
        time.sleep(0.01)
    assert tokens(reader, STEPS)[0] == list(range(STEPS))
    command_pipe.send_bytes(encoder.encode(Shutdown()))
    loop.join(timeout=20)
    assert not loop.is_alive()


def test_writing_to_an_exited_parent_raises() -> None:
    reader, writer = Pipe(duplex=False)
    reader.close()
    with pytest.raises(BrokenPipeError):
        ReportBuffer(EventWriter(writer)).put([event(0)], [], EngineLoad())


def test_a_pipeline_without_its_library_is_a_failed_start(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "model_index.json").write_text("{}")
    monkeypatch.setattr(engine_main, "find_spec", lambda _name: None)
    monkeypatch.setattr(engine_main, "end_with_parent", lambda _pid: None)
    monkeypatch.setattr("signal.signal", lambda *_arguments: None)
    monkeypatch.setattr("runtime.logging.configure", lambda *_arguments, **_options: None)
    commands, (read, write) = Pipe(duplex=False)[0], Pipe(duplex=False)
    engine_main.run(EngineSettings(model=str(tmp_path)), commands, write)
    report = msgspec.msgpack.decode(read.recv_bytes(), type=Report)
    assert isinstance(report, StartFailed)
    assert "docs/images.md" in report.reason


def test_instructions_that_the_machine_lacks_are_a_failed_start(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(engine_main, "end_with_parent", lambda _pid: None)
    monkeypatch.setattr("signal.signal", lambda *_arguments: None)
    monkeypatch.setattr("runtime.logging.configure", lambda *_arguments, **_options: None)
    monkeypatch.setattr(torch.cpu, "get_capabilities", dict)
    usable_instructions.cache_clear()
    commands, (read, write) = Pipe(duplex=False)[0], Pipe(duplex=False)
    name: Instructions = "neon" if platform.machine() == "aarch64" else "avx2"
    engine_main.run(EngineSettings(model="none", instructions=name), commands, write)
    report = msgspec.msgpack.decode(read.recv_bytes(), type=Report)
    assert isinstance(report, StartFailed)
    assert report.reason.startswith(f"instructions {name}: this processor lacks ")


class RecordingEngine(EchoEngine):
    """Records its name at each step in a list that engines share."""

    def __init__(self, name: str, order: list[str]) -> None:
        super().__init__()
        self.name, self.order = name, order

    def step(self) -> list[TokenEvent]:
        self.order.append(self.name)
        return super().step()


def test_two_engines_compute_steps_in_turn_until_either_is_shut_down() -> None:
    encoder = msgspec.msgpack.Encoder()
    order: list[str] = []
    pipes = [(Pipe(duplex=False), Pipe(duplex=False)) for _ in range(2)]
    loops = [
        EngineLoop(RecordingEngine(name, order), commands, EventWriter(reports))
        for name, ((commands, _), (_, reports)) in zip("ab", pipes, strict=True)
    ]
    for ((_, commands), _), count in zip(pipes, (5, 2), strict=True):
        commands.send_bytes(encoder.encode(request("r", list(range(count)))))
    serving = Thread(target=serve_engines, args=(loops,), daemon=True)
    serving.start()
    for (_, (reader, _)), count in zip(pipes, (5, 2), strict=True):
        assert tokens(reader, count)[0] == list(range(count))
    assert order == [*"abab", *"aaa"]
    (_, commands), (reader, _) = pipes[1]
    commands.send_bytes(encoder.encode(request("r", [9])))  # wakes the process that waits for commands of both
    assert tokens(reader, 1)[0] == [9]
    assert order[-1] == "b"
    commands.send_bytes(encoder.encode(Shutdown()))
    serving.join(timeout=20)
    assert not serving.is_alive()


def test_each_engine_of_a_process_computes_with_its_threads_of_torch(monkeypatch: pytest.MonkeyPatch) -> None:
    encoder = msgspec.msgpack.Encoder()
    pipes = [(Pipe(duplex=False), Pipe(duplex=False)) for _ in range(2)]
    seen: list[tuple[str, int]] = []
    loaded: list[int] = []

    class ThreadsEngine(EchoEngine):
        def __init__(self, name: str) -> None:
            super().__init__()
            self.name = name

        def step(self) -> list[TokenEvent]:
            seen.append((self.name, torch.get_num_threads()))
            if len(seen) == 3:
                pipes[0][0][1].send_bytes(encoder.encode(Shutdown()))
            return super().step()

    def load(settings: EngineSettings, pool: object) -> ThreadsEngine:
        loaded.append(torch.get_num_threads())
        torch.set_num_threads(3 if settings.model == "a" else 2)
        return ThreadsEngine(settings.model)

    monkeypatch.setattr(engine_main, "_load", load)
    monkeypatch.setattr(engine_main, "_pool", lambda settings: None)
    for (_, commands), _ in pipes:
        commands.send_bytes(encoder.encode(request("r", [1, 2, 3])))
    before = torch.get_num_threads()
    try:
        settings = [EngineSettings(model=name) for name in "ab"]
        run_engines(settings, [(commands, reports) for (commands, _), (_, reports) in pipes])
    finally:
        torch.set_num_threads(before)
    assert loaded == [before, before]
    assert seen[:3] == [("a", 3), ("b", 2), ("a", 3)]


@pytest.mark.parametrize(("chosen", "spins"), [({}, str(SPIN_COUNT)), ({"OMP_WAIT_POLICY": "active"}, None)])
def test_waiting_threads_soon_sleep_unless_the_operator_has_chosen_how_they_wait(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, chosen: dict[str, str], spins: str | None
) -> None:
    monkeypatch.setattr(engine_main, "end_with_parent", lambda _pid: None)
    monkeypatch.setattr("signal.signal", lambda *_arguments: None)
    monkeypatch.setattr("runtime.logging.configure", lambda *_arguments, **_options: None)
    environment = {name: value for name, value in os.environ.items() if name != "GOMP_SPINCOUNT"} | chosen
    monkeypatch.setattr(engine_main, "os", SimpleNamespace(environ=environment))
    commands, (read, write) = Pipe(duplex=False)[0], Pipe(duplex=False)
    engine_main.run(EngineSettings(model=str(tmp_path)), commands, write)
    assert isinstance(msgspec.msgpack.decode(read.recv_bytes(), type=Report), StartFailed)
    assert environment.get("GOMP_SPINCOUNT") == spins
