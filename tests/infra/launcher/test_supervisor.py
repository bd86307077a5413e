"""Process supervision, with small Python programs as children and short backoff."""

from __future__ import annotations

import asyncio
import os
import signal
import sys
from collections.abc import AsyncIterator, Callable
from dataclasses import replace
from pathlib import Path

import psutil
import pytest

from infra.home.process_records import ProcessRecord, ProcessRecords, ProcessState, stop_orphans
from infra.launcher.supervisor import ProcessSpec, RestartBackoff, Supervisor

QUICK = RestartBackoff(first=0.01, limit=0.02, refused=0.01, poll=0.01)
NEVER_AGAIN = RestartBackoff(first=3600, limit=3600, refused=3600, poll=0.01)

SLEEP = "import time; time.sleep(600)"
POLITE = """
import pathlib, signal, sys, time
signal.signal(signal.SIGTERM, lambda *_: sys.exit(0))
pathlib.Path({mark!r}).touch()
time.sleep(600)
"""
DEAF = """
import pathlib, signal, time
signal.signal(signal.SIGTERM, signal.SIG_IGN)
pathlib.Path({mark!r}).touch()
time.sleep(600)
"""
PARENT = """
import pathlib, subprocess, sys, time
child = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(600)"])
pathlib.Path({mark!r}).write_text(str(child.pid))
time.sleep(600)
"""


async def always() -> bool:
    return True


async def never() -> bool:
    return False


class Stage:
    """A supervisor in a temporary directory, with its notifications."""

    def __init__(self, folder: Path, backoff: RestartBackoff) -> None:
        self.folder = folder
        self.said: list[str] = []
        self.records = ProcessRecords(folder)
        self.supervisor = Supervisor(self.records, self.said.append, backoff)

    @property
    def mark(self) -> Path:
        return self.folder / "mark"

    def spec(self, program: str, name: str = "child", *, grace: float = 10.0, order: int = 0) -> ProcessSpec:
        return ProcessSpec(
            name=name,
            argv=(sys.executable, "-c", program.format(mark=str(self.mark))),
            environment=os.environ,
            log=self.folder / f"{name}.log",
            ready=always,
            grace=grace,
            order=order,
        )

    def record(self, name: str = "child") -> ProcessRecord:
        return next(record for record in self.records.all() if record.name == name)


Stages = Callable[[RestartBackoff], Stage]


@pytest.fixture
async def stages(tmp_path: Path) -> AsyncIterator[Stages]:
    made: list[Stage] = []

    def make(backoff: RestartBackoff) -> Stage:
        made.append(Stage(tmp_path, backoff))
        return made[-1]

    yield make
    for stage in made:
        stage.supervisor.stop_now()
        await stage.supervisor.stop_all()


async def until(condition: Callable[[], bool]) -> None:
    async with asyncio.timeout(30):
        while not condition():
            await asyncio.sleep(0.01)


async def test_a_process_has_a_record_and_a_pid_file(stages: Stages) -> None:
    stage = stages(QUICK)
    process = stage.supervisor.add(stage.spec(SLEEP))
    assert await process.settled() is ProcessState.READY
    pid = int((stage.folder / "child.pid").read_text())
    assert stage.record().process() == psutil.Process(pid)
    await stage.supervisor.remove("child")
    assert not psutil.pid_exists(pid)
    assert not (stage.folder / "child.pid").exists()
    assert stage.records.all() == []


async def test_a_killed_process_is_started_again(stages: Stages) -> None:
    stage = stages(QUICK)
    await stage.supervisor.add(stage.spec(SLEEP)).settled()
    first = stage.record().pid
    os.kill(first, signal.SIGKILL)
    await until(lambda: stage.record().state is ProcessState.READY and stage.record().pid != first)
    assert stage.record().restarts == 1
    assert "child was ended by SIGKILL" in stage.said[0]


async def test_a_process_that_exits_with_0_is_not_restarted(stages: Stages) -> None:
    stage = stages(QUICK)
    process = stage.supervisor.add(stage.spec(POLITE))
    await until(stage.mark.exists)
    os.kill(stage.record().pid, signal.SIGTERM)  # by an operator, past the supervisor
    await until(lambda: process.state is ProcessState.STOPPED)
    assert stage.said == []
    process.start()
    assert await process.settled() is ProcessState.READY


async def test_a_process_that_can_not_start_reports_why_and_is_retried(stages: Stages) -> None:
    stage = stages(QUICK)
    spec = stage.spec("import sys; print('headrace: no such model'); sys.exit(78)")
    process = stage.supervisor.add(replace(spec, ready=never))
    assert await process.settled() is ProcessState.REFUSED
    assert process.reason == "no such model"
    await until(lambda: len(stage.said) >= 2)


async def test_a_missing_program_is_reported(stages: Stages) -> None:
    stage = stages(NEVER_AGAIN)
    process = stage.supervisor.add(replace(stage.spec(SLEEP), argv=["/nonexistent/program"]))
    assert await process.settled() is ProcessState.REFUSED
    assert "/nonexistent/program: No such file" in process.reason


async def test_stopping_does_not_wait_for_the_pause(stages: Stages) -> None:
    stage = stages(NEVER_AGAIN)
    process = stage.supervisor.add(stage.spec("raise SystemExit(3)"))
    await until(lambda: process.state is ProcessState.WAITING)
    await asyncio.wait_for(process.stop(), 10)
    assert stage.record().state is ProcessState.STOPPED


async def test_a_process_that_does_not_stop_is_killed_after_its_grace(stages: Stages) -> None:
    stage = stages(QUICK)
    stage.supervisor.add(stage.spec(DEAF, grace=0.05))
    await until(stage.mark.exists)
    pid = stage.record().pid
    await stage.supervisor.remove("child")
    assert not psutil.pid_exists(pid)
    assert any("killed" in line for line in stage.said)


async def test_children_of_a_dead_process_are_killed(stages: Stages) -> None:
    stage = stages(NEVER_AGAIN)
    stage.supervisor.add(stage.spec(PARENT))
    await until(lambda: stage.mark.exists() and stage.mark.read_text() != "")
    grandchild = int(stage.mark.read_text())
    os.kill(stage.record().pid, signal.SIGKILL)
    await until(lambda: not _running(grandchild))


async def test_only_deaths_before_readiness_lengthen_the_pause(stages: Stages) -> None:
    stage = stages(RestartBackoff(first=0.01, limit=600, poll=0.001))
    process = stage.supervisor.add(stage.spec(SLEEP))
    for deaths in range(1, 17):  # 0.01 s doubled 15 times is 5 minutes
        await until(lambda: process.state is ProcessState.READY)
        os.kill(stage.record().pid, signal.SIGKILL)
        await until(lambda deaths=deaths: len(stage.said) == deaths)  # type: ignore[misc]
    assert {line.rpartition(" in ")[2] for line in stage.said} == {"0.0 s"}
    process.spec = replace(process.spec, ready=never)
    for deaths in range(17, 25):
        await until(lambda: process.state is ProcessState.STARTING)
        os.kill(stage.record().pid, signal.SIGKILL)
        await until(lambda deaths=deaths: len(stage.said) == deaths)  # type: ignore[misc]
    pauses = [float(line.rpartition(" in ")[2].split()[0]) for line in stage.said[17:]]
    assert pauses[-1] >= 0.5


async def test_children_end_with_a_killed_launcher(tmp_path: Path) -> None:
    program = f"""
import asyncio, os, sys
from pathlib import Path
from infra.home.process_records import ProcessRecords
from infra.launcher.supervisor import ProcessSpec, Supervisor
async def ready(): return True
async def main():
    folder = Path({str(tmp_path)!r})
    for name in ("a", "b"):
        spec = ProcessSpec(name, (sys.executable, "-c", {SLEEP!r}), os.environ, folder / name, ready)
        await Supervisor(ProcessRecords(folder), print).add(spec).settled()
    print("ready", flush=True)
    await asyncio.sleep(600)
asyncio.run(main())
"""
    launcher = await asyncio.create_subprocess_exec(
        sys.executable, "-c", program, stdout=asyncio.subprocess.PIPE, start_new_session=True
    )
    assert launcher.stdout is not None
    assert await asyncio.wait_for(launcher.stdout.readline(), 60) == b"ready\n"
    children = [record.pid for record in ProcessRecords(tmp_path).all()]
    assert len(children) == 2
    launcher.kill()
    await launcher.wait()
    await until(lambda: not any(map(_running, children)))


async def test_all_processes_stop_in_reverse_order(stages: Stages) -> None:
    stage = stages(QUICK)
    order: list[str] = []
    for number, name in enumerate(("broker", "gateway", "worker")):
        program = POLITE.replace("{mark!r}", repr(str(stage.folder / f"{name}.mark")))
        program = program.replace(
            "sys.exit(0)", f"(print({name!r}, file=open({str(stage.folder / 'order')!r}, 'a')), sys.exit(0))"
        )
        stage.supervisor.add(
            ProcessSpec(
                name, (sys.executable, "-c", program), os.environ, stage.folder / f"{name}.log", always, order=number
            )
        )
        await until((stage.folder / f"{name}.mark").exists)
    await stage.supervisor.stop_all()
    order = (stage.folder / "order").read_text().split()
    assert order == ["worker", "gateway", "broker"]


async def test_orphans_of_a_killed_launcher_are_stopped_but_no_reused_pid(tmp_path: Path) -> None:
    records = ProcessRecords(tmp_path)
    ours = await asyncio.create_subprocess_exec(sys.executable, "-c", SLEEP, start_new_session=True)
    other = await asyncio.create_subprocess_exec(sys.executable, "-c", SLEEP, start_new_session=True)
    created = psutil.Process(ours.pid).create_time()
    records.write(ProcessRecord(name="worker-1", state=ProcessState.READY, pid=ours.pid, created=created))
    # A pid with another start time: the kernel has reused it.
    records.write(ProcessRecord(name="gateway-1", state=ProcessState.READY, pid=other.pid, created=created - 60))
    try:
        ended = await asyncio.to_thread(stop_orphans, records, grace=10)
        assert ended == ["worker-1"]
        assert await asyncio.wait_for(ours.wait(), 10) != 0
        assert _running(other.pid)
        assert records.all() == []
    finally:
        other.kill()
        await other.wait()


def test_the_restart_delay_doubles_up_to_a_limit_with_jitter() -> None:
    backoff = RestartBackoff()
    for deaths, longest in ((1, 0.5), (2, 1.0), (3, 2.0), (4, 4.0), (10_000, backoff.limit)):
        pauses = [backoff.pause(deaths) for _ in range(100)]
        assert longest / 2 <= min(pauses) < max(pauses) <= longest


def _running(pid: int) -> bool:
    try:
        return psutil.Process(pid).status() != psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return False
