"""Defines a step of the set-up and runs it with progress reports; helpers that all steps share.

Must use the standard library only.
"""

from __future__ import annotations

import hashlib
import os
import shutil
import subprocess
import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
STAMP = "headrace.stamp"
HEARTBEAT_INTERVAL = 15


class StepFailed(Exception):
    """Raised when a step fails; the message is one line: what, why, and what to do about it."""


@dataclass(frozen=True)
class Step:
    """A set-up step; it is skipped if `done` returns true."""

    title: str
    done: Callable[[], bool]
    do: Callable[[], None]


@dataclass(frozen=True)
class Installation:
    """Target directory and extent of the set-up (`dev`: linters and test programs too)."""

    home: Path
    dev: bool

    def log(self, lane: str) -> Path:
        """Return the path of the log file of one lane of steps, which run one after another.

        Pip and npm write to it.
        """
        return self.home / "log" / f"install-{lane}.log"


def run(command: Sequence[str], log: Path, *, cwd: Path = ROOT) -> None:
    """Run a program of a set-up step in folder `cwd` to its end; append its output to the file `log`.

    Raises:
        StepFailed: the program is missing or failed; the message has its last output.
    """
    log.parent.mkdir(parents=True, exist_ok=True)
    with log.open("ab") as file:
        file.write(f"$ {' '.join(command)}\n".encode())
        file.flush()
        begin = file.tell()
        try:
            status = subprocess.run(
                command, cwd=cwd, stdin=subprocess.DEVNULL, stdout=file, stderr=file, check=False
            ).returncode
        except OSError as error:
            raise StepFailed(f"{command[0]}: {error.strerror}") from error
    if status != 0:
        raise StepFailed(f"`{' '.join(command[:4])} ...` failed: {_error_lines(log, begin)} (all of it: {log})")


def _error_lines(log: Path, begin: int) -> str:
    """Return the lines of a failed program's output that look like errors, else the last line."""
    with log.open("rb") as file:
        file.seek(begin)
        lines = [line.strip() for line in file.read().decode(errors="replace").splitlines() if line.strip()]
    errors = [line for line in lines if line.lower().startswith(("error", "npm error", "fatal"))]
    return "; ".join(errors[:3]) or (lines or ["no output"])[-1]


def fingerprint(paths: Sequence[Path], *extra: str) -> str:
    """Return a hash of the names and contents of files and of `extra`, by which a step detects changes."""
    digest = hashlib.sha256("\0".join(extra).encode())
    for path in sorted(paths):
        digest.update(str(path.relative_to(ROOT)).encode() + b"\0" + path.read_bytes() + b"\0")
    return digest.hexdigest()


def has_stamp(stamp: Path, value: str) -> bool:
    """Return whether the file `stamp` exists and contains exactly `value`: the step that wrote it is up to date."""
    return stamp.is_file() and stamp.read_text() == value


def sha256(path: Path) -> str:
    """Return the SHA-256 of one file's content, as hex."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def succeeds(command: Sequence[str]) -> bool:
    """Run a command, discard its output, and return whether it exited with status 0."""
    quiet = subprocess.DEVNULL
    return subprocess.run(command, stdout=quiet, stderr=quiet, check=False).returncode == 0


def can_use_apt() -> bool:
    """Return whether this process can install Debian packages: it is root and `apt-get` exists."""
    return os.geteuid() == 0 and shutil.which("apt-get") is not None


def apt_install(packages: Sequence[str], log: Path) -> None:
    """Update apt's package lists and install Debian packages. Requires `can_use_apt`."""
    run(["apt-get", "update"], log)
    run(["apt-get", "install", "-y", "--no-install-recommends", *packages], log)


def perform(step: Step, label: str) -> None:
    """Run one set-up step unless it is done, and print its start, progress and end, each after `label`."""
    if step.done():
        return
    begin = time.monotonic()
    print(f"{label} {step.title} ...", flush=True)
    finished = threading.Event()

    def report() -> None:
        while not finished.wait(HEARTBEAT_INTERVAL):
            print(f"{label} {step.title}: {time.monotonic() - begin:.0f} s so far", flush=True)

    reporter = threading.Thread(target=report, daemon=True)
    reporter.start()
    try:
        step.do()
    except StepFailed as error:
        raise StepFailed(f"step {label} {step.title}: {error}") from error
    finally:
        finished.set()
        reporter.join()
    print(f"{label} {step.title}: done in {time.monotonic() - begin:.0f} s", flush=True)
