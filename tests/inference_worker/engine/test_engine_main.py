"""The engine's loop: commands are heard between any two steps, and a parent that does not read holds up none."""

from __future__ import annotations

import select
import time
from collections.abc import Callable
from multiprocessing import Pipe
from multiprocessing.connection import Connection
from threading import Semaphore, Thread

import msgspec
import pytest

from inference_worker.engine.engine_main import BACKLOG_EVENTS, Mouth, ReportOutbox, serve
from inference_worker.engine_protocol import Abort, Command, EngineLoad, Report, Shutdown, StepReport, TokenEvent
from tests.inference_worker.worker.test_engine_process import EchoEngine, request

STEPS = 8_000
"""More than a pipe has room for."""


def event(token: int) -> TokenEvent:
    return TokenEvent(request="a", choice=0, position=token, token_ids=[token], finish_reason=None)


def heard(pipe: Connection) -> StepReport:
    assert pipe.poll(20)
    report = msgspec.msgpack.decode(pipe.recv_bytes(), type=Report)
    assert isinstance(report, StepReport)
    return report


def tokens(pipe: Connection, count: int) -> tuple[list[int], int]:
    """The next so many, and how many reports brought them."""
    got: list[int] = []
    reports = 0
    while len(got) < count:
        for said in heard(pipe).events:
            assert isinstance(said, TokenEvent)
            got += said.token_ids
        reports += 1
    return got, reports


class LockstepEngine(EchoEngine):
    """Steps when it is let; `computed`: the requests of each step, as they were when it began."""

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
    """docs/design/queue-topology.md#cancel: wherever in a step an abort arrives, the next one is without the
    request."""
    engine, encoder = LockstepEngine(), msgspec.msgpack.Encoder()
    (commands, told), (_reports, said) = Pipe(duplex=False), Pipe(duplex=False)
    loop = Thread(target=serve, args=(engine, commands, Mouth(said)), daemon=True)
    for command in (request("left", [1] * 50), request("stays", [2] * 4)):
        told.send_bytes(encoder.encode(command))
    loop.start()
    for _ in range(2):
        assert engine.began.acquire(timeout=20)
        engine.go.release()
    assert engine.began.acquire(timeout=20)  # the third step is being computed
    told.send_bytes(encoder.encode(Abort(request="left")))
    told.send_bytes(encoder.encode(request("comes", [3])))
    for _ in range(2):
        engine.go.release()
    assert engine.began.acquire(timeout=20)
    told.send_bytes(encoder.encode(Shutdown()))
    loop.join(timeout=20)
    assert engine.computed == [{"left", "stays"}] * 3 + [{"stays", "comes"}]


class InterruptedEngine(EchoEngine):
    """Every step gives way where something can be heard; `meanwhile`: what happens during each.

    `computed`: the requests of each step; `within`: those that it had when it had given way.
    """

    def __init__(self, *meanwhile: Callable[[], None]) -> None:
        super().__init__()
        self.meanwhile = list(meanwhile)
        self.computed: list[set[str]] = []
        self.within: list[set[str]] = []

    def knows(self, request: str) -> bool:
        return request in self.left

    def let_in(self, commands: int, hear: Callable[[], None], tell: Callable[[list[TokenEvent]], None]) -> None:
        self.commands, self.hear, self.tell = commands, hear, tell

    def step(self) -> list[TokenEvent]:
        before = set(self.left)
        self.computed.append(before)
        self.meanwhile.pop(0)()
        if select.select([self.commands], [], [], 0)[0]:
            self.hear()
            self.within.append(set(self.left))
            self.tell([self._next(request) for request in list(self.left) if request not in before])
        return [self._next(request) for request in list(self.left) if request in before]


def test_new_requests_are_heard_within_a_step_and_all_else_between_two() -> None:
    encoder = msgspec.msgpack.Encoder()
    (commands, told), (ear, said) = Pipe(duplex=False), Pipe(duplex=False)

    def say(*words: Command) -> None:
        for word in words:
            told.send_bytes(encoder.encode(word))

    engine = InterruptedEngine(
        # Who is there already begins anew after the step only, and what is said after that waits for its turn.
        lambda: say(request("comes", [3, 4]), request("left", [5]), Abort(request="comes"), request("late", [6])),
        lambda: say(Shutdown()),
    )
    say(request("left", [1, 2]))
    serve(engine, commands, Mouth(said))
    assert engine.computed == [{"left"}, {"left", "late"}]
    assert engine.within == [{"left", "comes"}, {"left", "late"}]
    reports = [[(event.request, event.token_ids) for event in heard(ear).events] for _ in range(4)]  # type: ignore[union-attr]
    assert reports == [[("comes", [3])], [("left", [1])], [], [("left", [5]), ("late", [6])]]


def test_a_parent_that_goes_during_a_step_is_noticed_after_it() -> None:
    (commands, told), (ear, said) = Pipe(duplex=False), Pipe(duplex=False)

    def leave() -> None:
        told.send_bytes(msgspec.msgpack.encode(request("comes", [3, 4])))
        told.close()
        ear.close()

    engine = InterruptedEngine(leave)
    told.send_bytes(msgspec.msgpack.encode(request("left", [1, 2])))
    with pytest.raises(BrokenPipeError):
        serve(engine, commands, Mouth(said))
    assert engine.within == [{"left", "comes"}]
    assert [len(ids) for ids in engine.left.values()] == [1, 1]  # the step was computed to its end


def test_what_comes_while_nobody_reads_becomes_one_report() -> None:
    ear, mouth = Pipe(duplex=False)
    outbox = ReportOutbox(Mouth(mouth))
    for step in range(STEPS):
        outbox.put([event(step)], [], EngineLoad(steps=step))
    last = Thread(target=outbox.flush)
    last.start()
    got, reports = tokens(ear, STEPS)
    last.join()
    assert got == list(range(STEPS))
    assert reports < STEPS / 2


def test_a_step_waits_when_much_is_waiting() -> None:
    ear, mouth = Pipe(duplex=False)
    outbox = ReportOutbox(Mouth(mouth))
    many = BACKLOG_EVENTS * 2
    made = []

    def steps() -> None:
        for step in range(many):
            outbox.put([event(step)], [], EngineLoad(steps=step))
            made.append(step)
        outbox.flush()

    engine = Thread(target=steps)
    engine.start()
    engine.join(timeout=1)
    assert len(made) < many
    assert tokens(ear, many)[0] == list(range(many))
    engine.join()


def test_an_engine_without_work_says_what_it_kept() -> None:
    (commands, told), (ear, said) = Pipe(duplex=False), Pipe(duplex=False)
    engine, encoder = EchoEngine(), msgspec.msgpack.Encoder()
    told.send_bytes(encoder.encode(request("a", list(range(STEPS)))))
    loop = Thread(target=serve, args=(engine, commands, Mouth(said)), daemon=True)
    loop.start()
    while engine.steps < STEPS:
        time.sleep(0.01)
    assert tokens(ear, STEPS)[0] == list(range(STEPS))
    told.send_bytes(encoder.encode(Shutdown()))
    loop.join(timeout=20)
    assert not loop.is_alive()


def test_a_parent_that_has_gone_is_noticed() -> None:
    ear, mouth = Pipe(duplex=False)
    ear.close()
    with pytest.raises(BrokenPipeError):
        ReportOutbox(Mouth(mouth)).put([event(0)], [], EngineLoad())
