"""Reads and writes benchmark result files: a JSON file per table, with its machine, versions, settings and command.

Every figure in the documentation comes from such a file. A row maps column names to values.
"""

from __future__ import annotations

import math
import os
import shlex
import shutil
import subprocess
import sys
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from importlib import metadata
from pathlib import Path

import msgspec
import psutil

ROOT = Path(__file__).resolve().parent.parent
RESULTS = ROOT / "benchmarks" / "results"
AVX2_ONLY = ROOT / "benchmarks" / "avx2_only"
"""Folder that restricts programs to AVX2 if `PYTHONPATH` names it."""
SCHEMA = 1

Value = str | int | float | bool | None
Row = dict[str, Value]

_ISA = {
    *("avx2", "fma", "f16c", "avx_vnni", "avx512f", "avx512bw", "avx512_vnni", "avx512_bf16", "avx512_fp16"),
    *("amx_tile", "amx_int8", "amx_bf16", "asimd", "asimddp", "bf16", "i8mm", "sve", "sve2"),
}
"""Processor flags that decide which matrix kernels can run."""
_PACKAGES = ("torch", "transformers", "msgspec")
_THREADING = ("OMP_", "KMP_", "MKL_", "GOMP_")
_DIGITS = 5


class Machine(msgspec.Struct, frozen=True):
    """The machine of a measurement: `cores` are those that the process may use, `memory` is in bytes."""

    cpu: str
    cores: int
    isa: list[str]
    memory: int
    gpus: list[str]


class Result(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The result of one benchmark: a table and how it was measured.

    Attributes:
        name: name of the file without `.json`.
        date: end of the measurement, ISO 8601 in UTC.
        versions: versions of Headrace (with `commit`), Python, the libraries, and the peers.
        command: the command that repeats the measurement, threading variables included.
        settings: all parameters of the run, seeds included.
        rows: the rows of the table.
    """

    name: str
    date: str
    machine: Machine
    versions: dict[str, str]
    command: str
    settings: dict[str, Value]
    rows: list[Row]
    schema: int = SCHEMA


class UnreadableResult(Exception):
    """Raised when a file is not a result of this schema."""


def make_result(
    name: str, settings: Mapping[str, Value], rows: Sequence[Row], versions: Mapping[str, str] | None = None
) -> Result:
    """Build the benchmark result `name` of `rows`, with the current time, machine and command.

    `settings` are those of the measurement; `versions` are those of the peers. The name of a measurement with AVX2 only
    ends in `-avx2`.
    """
    return Result(
        name=f"{name}-avx2" if is_avx2_only() else name,
        date=datetime.now(UTC).isoformat(timespec="seconds"),
        machine=this_machine(),
        versions={**own_versions(), **(versions or {})},
        command=this_command(),
        settings=dict(settings),
        rows=[{column: _rounded(value) for column, value in row.items()} for row in rows],
    )


def write(result: Result, folder: Path = RESULTS) -> Path:
    """Write a result to `NAME.json` in `folder`, replacing an older file, and return the file's path."""
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / f"{result.name}.json"
    path.write_bytes(msgspec.json.format(msgspec.json.encode(result), indent=1) + b"\n")
    return path


def read(path: Path) -> Result:
    """Read the benchmark result file at `path`.

    Raises:
        UnreadableResult: the file is not a result, or has another schema version.
    """
    try:
        result = msgspec.json.decode(path.read_bytes(), type=Result)
    except msgspec.DecodeError as error:
        raise UnreadableResult(f"{path.name}: {error}") from error
    if result.schema != SCHEMA:
        raise UnreadableResult(f"{path.name}: schema {result.schema}, expected {SCHEMA}")
    return result


def this_machine() -> Machine:
    """Return a description of this machine for a result: processor, usable cores, instruction sets, memory and GPUs."""
    flags, model = _processor()
    if is_avx2_only():
        flags, model = flags & {"avx2", "fma", "f16c"}, f"{model} restricted to AVX2"
    return Machine(
        cpu=model,
        cores=len(psutil.Process().cpu_affinity()),
        isa=sorted(_ISA & flags),
        memory=psutil.virtual_memory().total,
        gpus=_gpus(),
    )


def own_versions() -> dict[str, str]:
    """Return the versions for a result: Headrace, its commit (`+changes` if files differ), Python and libraries."""
    return {
        "headrace": metadata.version("headrace"),
        "commit": _commit(),
        "python": ".".join(map(str, sys.version_info[:3])),
        **{package: metadata.version(package) for package in _PACKAGES},
    }


def this_command() -> str:
    """Return the command line of this process for a result, as it is typed in the checkout, without machine paths."""
    threading = [f"{name}={value}" for name, value in sorted(os.environ.items()) if name.startswith(_THREADING)]
    restricted = [f"PYTHONPATH={AVX2_ONLY}"] if is_avx2_only() else []
    words = [*threading, *restricted, "python", *sys.orig_argv[1:]]
    return shlex.join(word.replace(f"{ROOT}/", "") for word in words)


def is_avx2_only() -> bool:
    """Return whether the programs of this measurement use nothing beyond AVX2 (`avx2_only/sitecustomize.py`)."""
    return os.environ.get("PYTHONPATH") == str(AVX2_ONLY)


def _processor() -> tuple[set[str], str]:
    facts: dict[str, str] = {}
    for line in Path("/proc/cpuinfo").read_text().splitlines():
        key, _, value = line.partition(":")
        facts.setdefault(key.strip(), value.strip())
    return set((facts.get("flags") or facts.get("Features", "")).split()), facts.get("model name", "unknown")


def _gpus() -> list[str]:
    if shutil.which("nvidia-smi") is None:
        return []
    query = ["nvidia-smi", "--query-gpu=name,memory.total", "--format=csv,noheader"]
    listed = subprocess.run(query, capture_output=True, text=True, check=False)
    return listed.stdout.strip().splitlines() if listed.returncode == 0 else []


def _commit() -> str:
    def git(*words: str) -> str:
        return subprocess.run(["git", *words], cwd=ROOT, capture_output=True, text=True, check=True).stdout.strip()

    if shutil.which("git") is None or not (ROOT / ".git").exists():
        return "unknown"
    changed = git("status", "--porcelain", "--untracked-files=no", "--", ".", ":!benchmarks/results", ":!docs")
    return git("rev-parse", "--short=12", "HEAD") + ("+changes" if changed else "")


def _rounded(value: Value) -> Value:
    """Round a float to five significant digits."""
    if not isinstance(value, float) or value == 0 or not math.isfinite(value):
        return value
    return round(value, _DIGITS - 1 - math.floor(math.log10(abs(value))))
