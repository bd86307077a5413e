"""The engine's loop: a parent that does not read holds up no step, and hears everything once it does."""

from __future__ import annotations

from multiprocessing import Pipe
from multiprocessing.connection import Connection
from threading import Thread

import msgspec
import pytest

from inference_worker.engine_main import BACKLOG_EVENTS, Mouth, ReportOutbox, serve
from inference_worker.engine_protocol import EngineLoad, Report, Shutdown, StepReport, TokenEvent
from tests.inference_worker.test_engine_process import EchoEngine, request

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

    def steps() -> None:
        for step in range(many):
            outbox.put([event(step)], [], EngineLoad(steps=step))
        outbox.flush()

    engine = Thread(target=steps)
    engine.start()
    engine.join(timeout=1)
    assert engine.is_alive()
    assert tokens(ear, many)[0] == list(range(many))
    engine.join()


def test_an_engine_without_work_says_what_it_kept() -> None:
    (commands, told), (ear, said) = Pipe(duplex=False), Pipe(duplex=False)
    engine, encoder = EchoEngine(), msgspec.msgpack.Encoder()
    told.send_bytes(encoder.encode(request("a", list(range(STEPS)))))
    loop = Thread(target=serve, args=(engine, commands, Mouth(said)))
    loop.start()
    assert tokens(ear, STEPS)[0] == list(range(STEPS))
    told.send_bytes(encoder.encode(Shutdown()))
    loop.join(timeout=20)
    assert not loop.is_alive()


def test_a_parent_that_has_gone_is_noticed() -> None:
    ear, mouth = Pipe(duplex=False)
    ear.close()
    with pytest.raises(BrokenPipeError):
        ReportOutbox(Mouth(mouth)).put([event(0)], [], EngineLoad())
