"""The child process of `ProcessEngine`, mostly with small fake engines."""

from __future__ import annotations

import asyncio
import os
import signal
import sys
import time
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager, suppress
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Literal, NoReturn

import psutil
import pytest

from inference_worker.engine import engine_main
from inference_worker.engine.engine_main import EngineLoop, Pipes, serve, serve_engines
from inference_worker.engine.engine_pipes import EventWriter
from inference_worker.engine_protocol import (
    EngineLoad,
    GenerationRequest,
    Ready,
    RequestFailed,
    StartFailed,
    StepReport,
    TokenEvent,
)
from inference_worker.errors import EngineDied, EngineStartFailed
from inference_worker.settings import EngineSettings
from inference_worker.worker.engine_process import EngineProcess, ProcessEngine
from router.messages import SamplingParams
from tests.fakes.counting_text import counting_ready

READY = counting_ready(slots=4, max_model_len=64)


ENDLESS, KILLS = 1_000_098, 1_000_099
"""Tokens of a prompt whose step does not end, and that kill the process. Larger than any that another test sends."""


class EchoEngine:
    """Returns each request's prompt, a token per step; does not end a step at `ENDLESS`, dies of a first `KILLS`."""

    def __init__(self) -> None:
        self.left: dict[str, list[int]] = {}
        self.steps = 0

    def ready(self) -> Ready:
        return READY

    def add(self, request: GenerationRequest) -> None:
        if request.prompt_ids[0] == KILLS:
            os.kill(os.getpid(), signal.SIGKILL)
        self.left[request.id] = list(request.prompt_ids)

    def abort(self, request: str, choice: int | None = None) -> None:
        self.left.pop(request, None)

    def step(self) -> list[TokenEvent]:
        self.steps += 1
        return [self._next(request) for request in list(self.left)]

    def has_work(self) -> bool:
        return bool(self.left)

    def load(self) -> EngineLoad:
        return EngineLoad(running=len(self.left), steps=self.steps)

    def failures(self) -> list[RequestFailed]:
        return []

    def _next(self, request: str) -> TokenEvent:
        ids = self.left[request]
        token = ids.pop(0)
        if token == ENDLESS:
            time.sleep(600)
        if not ids:
            del self.left[request]
        finish: Literal["length"] | None = None if ids else "length"
        return TokenEvent(request=request, choice=0, position=0, token_ids=[token], finish_reason=finish)


def echo(_settings: EngineSettings, commands: Connection, reports: Connection) -> None:
    writer = EventWriter(reports)
    writer.write(READY)
    try:
        serve(EchoEngine(), commands, writer)
    except (EOFError, OSError):
        return


def echo_all(settings: Sequence[EngineSettings], pipes: Sequence[Pipes], computing: engine_main.Computing) -> None:
    """Serve an engine that echoes for each of `settings`, unless one has no model."""
    for each in settings:
        if not each.model:
            for _, reports in pipes:
                EventWriter(reports).write(StartFailed(reason="no model"))
            return
    loops = []
    for commands, reports in pipes:
        writer = EventWriter(reports)
        writer.write(READY)
        loops.append(EngineLoop(EchoEngine(), commands, writer))
    with suppress(EOFError, OSError):
        serve_engines(loops, computing)


def refuse(settings: EngineSettings, _commands: Connection, reports: Connection) -> None:
    EventWriter(reports).write(StartFailed(reason=f"no model {settings.model}"))


def load_for_ever(_settings: EngineSettings, commands: Connection, _reports: Connection) -> None:
    commands.recv_bytes()  # returns at the shutdown command


def load_slowly(settings: EngineSettings, commands: Connection, reports: Connection) -> None:
    """Load a model as the real engine does, for so long that the pipe's end is not noticed meanwhile."""

    def load(_settings: EngineSettings, _pool: None) -> NoReturn:
        Path(settings.model).write_text(str(os.getpid()))
        time.sleep(60)
        raise MemoryError

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(engine_main, "_load", load)
        engine_main.run(settings, commands, reports)


def crash(_settings: EngineSettings, _commands: Connection, _reports: Connection) -> None:
    os._exit(3)


def request(id_: str, ids: list[int]) -> GenerationRequest:
    return GenerationRequest(id=id_, prompt_ids=ids, sampling=SamplingParams(seed=1))


async def ids_until_done(engine: ProcessEngine, done: set[str]) -> dict[str, list[int]]:
    got: dict[str, list[int]] = {id_: [] for id_ in done}
    async for report in engine.reports():
        for event in report.events:
            assert isinstance(event, TokenEvent)
            got[event.request] += event.token_ids
            if event.finish_reason:
                done.discard(event.request)
        if not done:
            break
    return got


@asynccontextmanager
async def echoing() -> AsyncIterator[ProcessEngine]:
    """A started engine that echoes."""
    engine = ProcessEngine.alone(EngineSettings(model="m"), target=echo)
    assert await engine.start() == READY
    try:
        yield engine
    finally:
        await engine.stop()


async def test_requests_are_answered_with_tokens() -> None:
    async with echoing() as engine:
        engine.submit(request("a", [1, 2, 3]))
        engine.submit(request("b", [7]))
        async with asyncio.timeout(10):
            assert await ids_until_done(engine, {"a", "b"}) == {"a": [1, 2, 3], "b": [7]}


async def test_an_abort_of_the_last_request_is_followed_by_a_report() -> None:
    async with echoing() as engine:
        engine.abort("unknown")
        async with asyncio.timeout(10):
            report = await anext(aiter(engine.reports()))
        assert report == StepReport(load=EngineLoad())


async def test_a_crashed_child_is_detected_and_can_be_restarted() -> None:
    async with echoing() as engine:
        engine.submit(request("poison", [KILLS]))
        with pytest.raises(EngineDied, match="signal 9"):
            await asyncio.wait_for(ids_until_done(engine, {"poison"}), 10)
        with pytest.raises(EngineDied):
            engine.submit(request("a", [1]))
        await engine.start()
        engine.submit(request("a", [1]))
        async with asyncio.timeout(10):
            assert await ids_until_done(engine, {"a"}) == {"a": [1]}


async def test_a_hung_child_can_be_killed() -> None:
    async with echoing() as engine:
        child = engine._child
        assert child is not None
        assert child.process.pid is not None
        os.kill(child.process.pid, signal.SIGSTOP)
        engine.submit(request("a", [1]))
        engine.kill()
        with pytest.raises(EngineDied, match="signal 9"):
            await asyncio.wait_for(ids_until_done(engine, {"a"}), 20)


@asynccontextmanager
async def echoing_pair() -> AsyncIterator[tuple[ProcessEngine, ProcessEngine]]:
    """Two started engines of one process."""
    first, second = EngineProcess([EngineSettings(model="a"), EngineSettings(model="b")], target=echo_all).engines
    assert await asyncio.gather(first.start(), second.start()) == [READY, READY]
    try:
        yield first, second
    finally:
        await first.stop()
        await second.stop()


def pid(engine: ProcessEngine) -> int | None:
    assert engine._child is not None
    return engine._child.process.pid


async def test_two_engines_of_a_process_answer_their_own_requests() -> None:
    async with echoing_pair() as (first, second), asyncio.timeout(10):
        assert pid(first) == pid(second)
        first.submit(request("a", [1, 2, 3]))
        second.submit(request("a", [7, 8]))
        assert await ids_until_done(first, {"a"}) == {"a": [1, 2, 3]}
        assert await ids_until_done(second, {"a"}) == {"a": [7, 8]}


async def test_a_crash_ends_both_engines_is_blamed_on_one_and_followed_by_one_start() -> None:
    async with echoing_pair() as (first, second), asyncio.timeout(20):
        first.submit(request("poison", [KILLS]))
        with pytest.raises(EngineDied) as at_fault:
            await ids_until_done(first, {"poison"})
        await first.start()
        first.submit(request("a", [1]))
        with pytest.raises(EngineDied) as innocent:
            await ids_until_done(second, {"none"})
        assert (at_fault.value.elsewhere, innocent.value.elsewhere) == (False, True)
        await second.start()
        assert pid(first) == pid(second)
        second.submit(request("b", [2]))
        assert await ids_until_done(first, {"a"}) == {"a": [1]}
        assert await ids_until_done(second, {"b"}) == {"b": [2]}


async def test_the_planned_end_of_an_engine_is_not_blamed_on_the_requests_of_another() -> None:
    async with echoing_pair() as (first, second), asyncio.timeout(20):
        second.submit(request("a", [1, ENDLESS]))
        async for report in second.reports():
            if report.events:
                break
        first.kill(planned=True)
        with pytest.raises(EngineDied) as innocent:
            await ids_until_done(second, {"a"})
        assert innocent.value.elsewhere


async def test_the_process_ends_with_its_last_engine() -> None:
    async with echoing_pair() as (first, second), asyncio.timeout(20):
        reports = asyncio.create_task(anext(aiter(first.reports()), None))
        await asyncio.sleep(0)
        await first.stop()
        assert await reports is None
        second.submit(request("b", [2]))
        assert await ids_until_done(second, {"b"}) == {"b": [2]}
        process = second._child.process if second._child else None
        await second.stop()
        assert process is not None
        assert not process.is_alive()


async def test_a_failed_start_fails_both_engines() -> None:
    first, second = EngineProcess([EngineSettings(model="a"), EngineSettings(model="")], target=echo_all).engines
    for outcome in await asyncio.gather(first.start(), second.start(), return_exceptions=True):
        assert isinstance(outcome, EngineStartFailed)
        assert str(outcome) == "no model"


async def test_reports_end_without_an_error_after_stop() -> None:
    engine = ProcessEngine.alone(EngineSettings(model="m"), target=echo)
    await engine.start()
    reports = engine.reports()
    waiting = asyncio.create_task(anext(aiter(reports), None))
    await asyncio.sleep(0)
    await engine.stop()
    assert await asyncio.wait_for(waiting, 10) is None


async def test_a_failed_start_has_its_reason() -> None:
    with pytest.raises(EngineStartFailed, match="no model m"):
        await ProcessEngine.alone(EngineSettings(model="m"), target=refuse).start()


async def test_a_crash_while_starting_is_reported_as_such() -> None:
    with pytest.raises(EngineStartFailed, match="exit status 3"):
        await ProcessEngine.alone(EngineSettings(model="m"), target=crash).start()


async def test_an_engine_that_loads_ends_with_its_killed_worker(tmp_path: Path) -> None:
    program = f"""
import asyncio
from inference_worker.settings import EngineSettings
from inference_worker.worker.engine_process import EngineProcess, ProcessEngine
from {__name__} import load_slowly
if __name__ == "__main__":
    asyncio.run(ProcessEngine.alone(EngineSettings(model={str(tmp_path / "pid")!r}), target=load_slowly).start())
"""
    (tmp_path / "worker.py").write_text(program)
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    worker = await asyncio.create_subprocess_exec(sys.executable, str(tmp_path / "worker.py"), env=environment)
    async with asyncio.timeout(60):
        while not (tmp_path / "pid").exists() or not (pid := (tmp_path / "pid").read_text()):
            await asyncio.sleep(0.05)
    worker.kill()
    await worker.wait()
    async with asyncio.timeout(10):
        while psutil.pid_exists(int(pid)) and psutil.Process(int(pid)).status() != psutil.STATUS_ZOMBIE:
            await asyncio.sleep(0.05)


async def test_a_starting_child_accepts_no_request() -> None:
    """`EngineJobHandler` submits all jobs once it is ready, so the engine would get the request twice."""
    engine = ProcessEngine.alone(EngineSettings(model="m"), target=load_for_ever)
    starting = asyncio.create_task(engine.start())
    while engine._child is None:
        await asyncio.sleep(0.01)
    with pytest.raises(EngineDied):
        engine.submit(request("a", [1]))
    await engine.stop()
    with pytest.raises(EngineStartFailed):
        await starting


@pytest.mark.model
async def test_the_real_engine_answers(model_file: Path) -> None:
    engine = ProcessEngine.alone(EngineSettings(model=str(model_file), max_num_seqs=2, max_model_len=128, threads=1))
    ready = await engine.start()
    try:
        sampling = SamplingParams(seed=1, temperature=0, max_tokens=4, ignore_eos=True)
        engine.submit(GenerationRequest(id="a", prompt_ids=[504, 5, 6], sampling=sampling))
        async with asyncio.timeout(60):
            assert len((await ids_until_done(engine, {"a"}))["a"]) == 4
    finally:
        await engine.stop()
    assert ready.vocab_size == 49152


async def test_a_missing_model_is_one_line() -> None:
    with pytest.raises(EngineStartFailed) as caught:
        await ProcessEngine.alone(EngineSettings(model="/no/such/model.gguf")).start()
    assert "/no/such/model.gguf" in str(caught.value)
    assert "\n" not in str(caught.value)
