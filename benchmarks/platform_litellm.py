"""Runs LiteLLM's proxy, the peer of our gateway in the platform benchmark, as a process in front of a stub upstream.

It is installed into its own environment (`litellm[proxy]<1.108`: later versions did not install), in its fastest
configuration: no database, no callbacks, a key in its configuration file, and a chosen number of workers.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory

from benchmarks.peers.peer import install_packages, run_program
from benchmarks.platform_stack import INSTALLED, Processes
from benchmarks.servers import running_process
from infra.launcher.readiness import free_port

REQUIREMENT = "litellm[proxy]<1.108"
ENVIRONMENT = INSTALLED / "peers" / "litellm"
KEY = "sk-benchmark"
MODEL = "counting"
VARIABLES = {"LITELLM_LOCAL_MODEL_COST_MAP": "True", "LITELLM_LOG": "ERROR"}


@dataclass(frozen=True)
class LiteLLM(Processes):
    """A running proxy and the stub behind it."""

    port: int
    stub_port: int


def install() -> str:
    """Install LiteLLM's proxy in its own virtual environment unless it is installed; return its version.

    Raises:
        StepFailed, PeerFailed: the installation failed.
    """
    python = ENVIRONMENT / "bin" / "python"
    install_packages(python, [REQUIREMENT], INSTALLED / "log" / "peers.log")
    return run_program([str(python), "-c", "from importlib.metadata import version; print(version('litellm'))"])


@contextmanager
def running(*, workers: int) -> Iterator[LiteLLM]:
    """Run LiteLLM's proxy (`workers` processes) and a stub upstream in a context; yield process ids and ports.

    Raises:
        ServerFailed: one of them does not answer.
    """
    port, stub_port = free_port(), free_port()
    with TemporaryDirectory(prefix="litellm-bench-") as name:
        folder = Path(name)
        configuration = folder / "config.yaml"
        configuration.write_text(json.dumps(_configuration(stub_port)))  # JSON is YAML
        stub_command = [sys.executable, "-m", "benchmarks.platform_stub", str(stub_port)]
        options = {"--config": configuration, "--host": "127.0.0.1", "--port": port, "--num_workers": workers}
        command = [str(ENVIRONMENT / "bin" / "litellm"), *(str(word) for option in options.items() for word in option)]
        ready = f"http://127.0.0.1:{port}/health/liveliness"
        with (
            running_process(stub_command, {}, f"http://127.0.0.1:{stub_port}/", folder / "stub.log") as stub,
            running_process(command, VARIABLES, ready, folder / "litellm.log") as proxy,
        ):
            yield LiteLLM({"litellm": proxy.pid, "stub": stub.pid}, port, stub_port)


def _configuration(stub_port: int) -> dict[str, object]:
    upstream = {"model": f"openai/{MODEL}", "api_base": f"http://127.0.0.1:{stub_port}/v1", "api_key": "none"}
    return {
        "model_list": [{"model_name": MODEL, "litellm_params": upstream}],
        "litellm_settings": {"telemetry": False, "set_verbose": False},
        "general_settings": {"master_key": KEY},
    }
