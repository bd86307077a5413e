"""Builds the table of `headrace ps`: a home's processes from their records, and their work from `/status`."""

from __future__ import annotations

import base64
import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any

import psutil
from rich.table import Table

from infra.home.credentials import password_file
from infra.home.home import Home
from infra.home.process_records import ProcessRecord, ProcessRecords, ProcessState
from infra.launcher.readiness import get_json
from infra.rabbitmq import definitions


@dataclass(frozen=True)
class Row:
    """One process in the table of `headrace ps`."""

    name: str
    pid: str
    state: str
    uptime: str
    restarts: str
    memory: str
    doing: str


def rows(home: Home) -> list[Row]:
    """Request `/status` of all processes recorded in `home`, concurrently; return the row of each for `headrace ps`."""
    records = ProcessRecords(home.run).all()
    if not records:
        return []
    with ThreadPoolExecutor(max_workers=len(records)) as pool:
        return list(pool.map(lambda record: _row(home, record), records))


def table(shown: list[Row]) -> Table:
    """Return the terminal table that `headrace ps` prints, with one line per row."""
    result = Table(box=None, pad_edge=False, header_style="bold")
    for title, align in (("NAME", "left"), ("PID", "right"), ("STATE", "left"), ("UP", "right")):
        result.add_column(title, justify="right" if align == "right" else "left", no_wrap=True)
    result.add_column("RESTARTS", justify="right")
    result.add_column("MEMORY", justify="right", no_wrap=True)
    result.add_column("DOING", overflow="fold")
    for row in shown:
        result.add_row(row.name, row.pid, row.state, row.uptime, row.restarts, row.memory, row.doing)
    return result


def _row(home: Home, record: ProcessRecord) -> Row:
    process = record.process()
    if process is None:
        is_dead = record.pid and record.state is not ProcessState.STOPPED
        state = "dead" if is_dead else record.state.value
        return Row(record.name, "-", state, "-", str(record.restarts), "-", record.reason)
    return Row(
        name=record.name,
        pid=str(record.pid),
        state=record.state.value,
        uptime=duration(time.time() - record.created),
        restarts=str(record.restarts),
        memory=f"{_memory(process) / 2**20:.0f} MiB",
        doing=doing(home, record),
    )


def _memory(process: psutil.Process) -> int:
    """Return the resident bytes of a process and its descendants (e.g. a worker's engine)."""
    total = 0
    try:
        for each in (process, *process.children(recursive=True)):
            total += each.memory_info().rss
    except psutil.NoSuchProcess:
        pass  # it has ended meanwhile
    return total


def duration(seconds: float) -> str:
    """Return a duration in seconds as a short text: `42 s`, `3 min`, `5.2 h`, `3.1 d`."""
    for size, unit in ((86400, "d"), (3600, "h")):
        if seconds >= size:
            return f"{seconds / size:.1f} {unit}"
    return f"{seconds / 60:.0f} min" if seconds >= 120 else f"{max(0.0, seconds):.0f} s"


def doing(home: Home, record: ProcessRecord) -> str:
    """Request one process's `/status`, and return a short text on its current work for `headrace ps`."""
    if not record.status_url:
        return ""
    if record.name == "rabbitmq":
        return _broker(get_json(record.status_url, headers=_login(home)))
    status = get_json(record.status_url)
    return "does not answer" if status is None else format_status(status)


def _login(home: Home) -> dict[str, str]:
    file = password_file(home, definitions.ADMIN)
    if not file.exists():
        return {}
    pair = f"{definitions.ADMIN}:{file.read_text().strip()}".encode()
    return {"Authorization": "Basic " + base64.b64encode(pair).decode()}


def _broker(overview: dict[str, Any] | None) -> str:
    if overview is None:
        return "management console does not answer"
    objects, totals = overview.get("object_totals", {}), overview.get("queue_totals", {})
    return (
        f"{objects.get('queues', 0)} queues: {totals.get('messages_ready', 0)} messages waiting, "
        f"{totals.get('messages_unacknowledged', 0)} running; {objects.get('connections', 0)} connections"
    )


def format_status(status: dict[str, Any]) -> str:
    """Return the JSON values of a `/status` response as a short text; unknown fields are shown as they are."""
    if "model" in status:
        usage = status.get("kv_cache_usage", 0)
        return (
            f"{status['model']} on {status.get('device', '?')}: {status.get('running', 0)} running, "
            f"{status.get('waiting', 0)} waiting, KV {usage:.0%}"
        )
    if "jobs" in status:
        models = ", ".join(status.get("models", [])) or "none"
        return f"{status['jobs']} requests open; models: {models}; broker {status.get('broker', '?')}"
    return ", ".join(
        _figure(key.replace("_", " "), value) for key, value in status.items() if not isinstance(value, dict)
    )


def _figure(name: str, value: Any) -> str:
    """Return a field as text, e.g. `2 streams open`, `broker up`."""
    return f"{value} {name}" if isinstance(value, int | float) and not isinstance(value, bool) else f"{name} {value}"
