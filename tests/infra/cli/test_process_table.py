"""Process descriptions of `headrace ps`."""

from __future__ import annotations

from pathlib import Path

from infra.cli.process_table import duration, format_status, rows
from infra.home.home import Home
from infra.home.process_records import ProcessRecord, ProcessRecords, ProcessState


def test_a_worker_is_described_by_its_load() -> None:
    status = {"model": "smollm2-135m-instruct", "device": "cpu", "running": 3, "waiting": 0, "kv_cache_usage": 0.12}
    assert format_status(status) == "smollm2-135m-instruct on cpu: 3 running, 0 waiting, KV 12%"


def test_a_gateway_is_described_by_its_requests() -> None:
    status = {"gateway": "gateway-1", "broker": "up", "jobs": 2, "models": ["a", "b"]}
    assert format_status(status) == "2 requests open; models: a, b; broker up"


def test_other_processes_show_their_status_fields() -> None:
    assert format_status({"settled": 2, "broker": "up", "detail": {}}) == "2 settled, broker up"


def test_durations_are_formatted() -> None:
    assert [duration(seconds) for seconds in (0, 59, 150, 7200, 200_000)] == ["0 s", "59 s", "2 min", "2.0 h", "2.3 d"]


def test_a_process_that_can_not_start_shows_its_reason_and_an_orphan_is_dead(tmp_path: Path) -> None:
    home = Home(tmp_path)
    home.prepare()
    records = ProcessRecords(home.run)
    records.write(ProcessRecord(name="worker-1", state=ProcessState.REFUSED, reason="no such model", order=2))
    records.write(ProcessRecord(name="gateway-1", state=ProcessState.READY, pid=2**22 + 1, created=1.0, order=1))
    gateway, worker = rows(home)
    assert (gateway.name, gateway.state, gateway.pid) == ("gateway-1", "dead", "-")
    assert (worker.state, worker.doing) == ("cannot start", "no such model")
