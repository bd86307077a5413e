"""Runs LiteLLM's proxy, the peer of our gateway, as a process in front of the stub.

It is installed into its own environment (`litellm[proxy]<1.108`: later versions did not install), in its fastest
configuration: no database, no callbacks, a key in its configuration file, and a chosen number of workers.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import subprocess
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import BinaryIO

import psutil

from benchmarks.peers.peer import install_packages, run_program
from benchmarks.platform_stack import INSTALLED, cpu_seconds
from infra.launcher.readiness import free_port, url_is_ok
from runtime.lifecycle import StartupError

REQUIREMENT = "litellm[proxy]<1.108"
ENVIRONMENT = INSTALLED / "peers" / "litellm"
KEY = "sk-benchmark"
MODEL = "counting"
START_SECONDS = 120.0


@dataclass(frozen=True)
class LiteLLM:
    """A running proxy and the stub behind it."""

    port: int
    stub_port: int
    roots: dict[str, int]

    def cpu_seconds(self) -> dict[str, float]:
        """Return the CPU time used so far by each process and its children."""
        return {name: cpu_seconds(pid) for name, pid in self.roots.items()}


def install() -> str:
    """Install the proxy unless it is installed; return its version.

    Raises:
        StepFailed, PeerFailed: the installation failed.
    """
    python = ENVIRONMENT / "bin" / "python"
    install_packages(python, [REQUIREMENT], INSTALLED / "log" / "peers.log")
    return run_program([str(python), "-c", "from importlib.metadata import version; print(version('litellm'))"])


@asynccontextmanager
async def running(*, workers: int) -> AsyncIterator[LiteLLM]:
    """Run the installed proxy and its stub, and stop both at the end.

    Raises:
        StartupError: the proxy does not answer.
    """
    port, stub_port = free_port(), free_port()
    with TemporaryDirectory(prefix="litellm-bench-") as folder:
        configuration = Path(folder) / "config.yaml"
        configuration.write_text(json.dumps(_configuration(stub_port)))  # JSON is YAML
        with (Path(folder) / "litellm.log").open("wb") as log:
            stub = _spawn([sys.executable, "-m", "benchmarks.platform_stub", str(stub_port)], log)
            options = {"--config": configuration, "--host": "127.0.0.1", "--port": port, "--num_workers": workers}
            words = [str(word) for option in options.items() for word in option]
            proxy = _spawn([str(ENVIRONMENT / "bin" / "litellm"), *words], log)
            try:
                await _until_ready(port, proxy)
                yield LiteLLM(port, stub_port, {"litellm": proxy.pid, "stub": stub.pid})
            finally:
                _end(proxy)
                _end(stub)


def _spawn(command: list[str], log: BinaryIO) -> subprocess.Popen[bytes]:
    variables = {**os.environ, "LITELLM_LOCAL_MODEL_COST_MAP": "True", "LITELLM_LOG": "ERROR"}
    return subprocess.Popen(command, env=variables, stdout=log, stderr=log, start_new_session=True)


def _configuration(stub_port: int) -> dict[str, object]:
    upstream = {"model": f"openai/{MODEL}", "api_base": f"http://127.0.0.1:{stub_port}/v1", "api_key": "none"}
    return {
        "model_list": [{"model_name": MODEL, "litellm_params": upstream}],
        "litellm_settings": {"telemetry": False, "set_verbose": False},
        "general_settings": {"master_key": KEY},
    }


async def _until_ready(port: int, proxy: subprocess.Popen[bytes]) -> None:
    ready = url_is_ok(f"http://127.0.0.1:{port}/health/liveliness")
    with contextlib.suppress(TimeoutError):
        async with asyncio.timeout(START_SECONDS):
            while proxy.poll() is None:
                if await ready():
                    return
                await asyncio.sleep(0.2)
    raise StartupError("LiteLLM's proxy does not answer")


def _end(process: subprocess.Popen[bytes]) -> None:
    with contextlib.suppress(psutil.NoSuchProcess):
        for child in psutil.Process(process.pid).children(recursive=True):
            child.kill()
    process.kill()
    process.wait()
