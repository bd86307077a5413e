"""Runs `headrace serve` or `headrace up` as a process with its own home directory, and cleans up."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
import urllib.request
from collections.abc import Callable, Mapping
from contextlib import suppress
from pathlib import Path

import openai
import psutil
import pytest

from infra.install.models import MODEL_FILE
from infra.install.step import ROOT

INSTALLED = Path(os.environ.get("HEADRACE_HOME") or ROOT / ".headrace").resolve()
MODEL = "smollm2-135m-instruct"
START_TIMEOUT = 150.0
STOP_TIMEOUT = 60.0
LINGER_TIMEOUT = 30


def missing() -> str | None:
    """Return the part of `make setup` that is missing; `None` if nothing is."""
    for needed in (INSTALLED / "models" / MODEL_FILE, INSTALLED / "store-venv" / "bin" / "python"):
        if not needed.exists():
            return f"{needed} is missing: `make setup`"
    return None


def new_home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a new home; skip the test, or fail in CI, if `make setup` has not run."""
    reason = missing()
    if reason is not None:
        pytest.fail(reason) if os.environ.get("CI") else pytest.skip(reason)
    home = tmp_path_factory.mktemp("home")
    borrow_installation(home)
    return home


def borrow_installation(home: Path) -> None:
    """Link the model and the store program of the installed home into a new one."""
    home.mkdir(exist_ok=True)
    for name in ("models", "store-venv"):
        (home / name).symlink_to(INSTALLED / name)


def environment(home: Path, port: int, extra: Mapping[str, str]) -> dict[str, str]:
    clean = {name: value for name, value in os.environ.items() if not name.startswith("HEADRACE_")}
    return {**clean, "HEADRACE_HOME": str(home), "HEADRACE_PORT": str(port), "COLUMNS": "200", **extra}


class Launched:
    """A running `headrace serve` or `headrace up`."""

    def __init__(self, arguments: list[str], home: Path, port: int, **extra: str) -> None:
        self.home = home
        self.port = port
        self.output_file = home / "launcher.out"
        self.environment = environment(home, port, extra)
        with self.output_file.open("wb") as output:
            self.process = subprocess.Popen(
                [sys.executable, "-m", "infra.cli", *arguments],
                env=self.environment,
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=output,
                start_new_session=True,
            )

    @property
    def output(self) -> str:
        return self.output_file.read_text()

    def until_ready(self) -> None:
        until(lambda: self._ready() or self.process.poll() is not None, START_TIMEOUT, lambda: self.output)
        assert self.process.poll() is None, self.output

    def _ready(self) -> bool:
        try:
            with urllib.request.urlopen(f"http://127.0.0.1:{self.port}/readyz", timeout=2) as response:
                return response.status == 200 and "Try it" in self.output
        except OSError:
            return False

    def client(self) -> openai.OpenAI:
        lines = dict(line.split("=", 1) for line in (self.home / "client.env").read_text().splitlines())
        return openai.OpenAI(base_url=lines["OPENAI_BASE_URL"], api_key=lines["OPENAI_API_KEY"], max_retries=0)

    def headrace(self, *arguments: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [sys.executable, "-m", "infra.cli", *arguments],
            env=self.environment,
            capture_output=True,
            text=True,
            timeout=200,
            check=False,
        )

    def interrupt(self) -> int:
        """Send Ctrl-C as a terminal does; return the exit status."""
        self.process.send_signal(signal.SIGINT)
        return self.process.wait(STOP_TIMEOUT)

    def ours(self) -> list[psutil.Process]:
        """Return all live processes of this home, found by their environment or arguments."""
        found = []
        for process in psutil.process_iter():
            try:
                mark = " ".join([*process.cmdline(), *process.environ().values()])
                if str(self.home) in mark and process.pid != os.getpid() and process.status() != psutil.STATUS_ZOMBIE:
                    found.append(process)
            except (psutil.NoSuchProcess, psutil.AccessDenied):
                continue
        return found

    def leaves_nothing(self) -> None:
        """Require that no process remains. The resource tracker of multiprocessing exits a little later."""
        until(lambda: not self.ours(), LINGER_TIMEOUT, lambda: "\n".join(map(str, self.ours())))

    def end(self) -> None:
        """Kill all processes, also after a failed test."""
        for process in self.ours():
            with suppress(psutil.NoSuchProcess):  # it ended with the launcher
                process.kill()
        self.process.kill()
        self.process.wait()


def until(condition: Callable[[], object], seconds: float, explain: Callable[[], str] = str) -> None:
    """Poll until `condition` is true, for conditions in another process."""
    deadline = time.monotonic() + seconds
    while not condition():
        if time.monotonic() >= deadline:
            raise TimeoutError(explain())
        time.sleep(0.1)
