"""Starts and stops the servers of the server benchmark: our whole platform, llama-server and vLLM's server.

Each is a process in its own session; leaving the context ends it and its children, also on SIGTERM.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager, suppress
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory

import httpx

from benchmarks.client import Endpoint
from benchmarks.peers.llama_cpp import LlamaCpp
from benchmarks.peers.peer import PeerWorkspace
from benchmarks.peers.vllm import Vllm
from benchmarks.results import ROOT
from inference_worker.settings import ActivationBits
from infra.home import environment
from infra.home.home import Home
from infra.home.process_records import ProcessRecords
from infra.home.settings import LauncherSettings
from infra.launcher.readiness import free_port

START_TIMEOUT, STOP_TIMEOUT = 240.0, 60.0
SLOTS = 64
"""Number of requests that a server may run at the same time."""
CONTEXT = 2048

Server = Callable[[PeerWorkspace], AbstractContextManager[Endpoint]]


class ServerFailed(Exception):
    """Raised when a server does not start; the message is its last line of output."""


@contextmanager
def headrace(
    workspace: PeerWorkspace, *, speculation: str = "auto", activation_bits: ActivationBits = "auto"
) -> Iterator[Endpoint]:
    """Run `headrace up` with one worker in a temporary home while the context lasts; yield the endpoint of its API."""
    variables = {
        "HEADRACE_SPECULATION": speculation,
        "HEADRACE_ACTIVATION_BITS": str(activation_bits),
        "HEADRACE_MAX_WAIT": "600",  # the other servers reject no request either
    }
    with (
        TemporaryDirectory(prefix="headrace-bench-") as folder,
        headrace_in(Path(folder), workspace.model, variables) as endpoint,
    ):
        yield endpoint


@contextmanager
def headrace_in(home: Path, model: Path, variables: Mapping[str, str]) -> Iterator[Endpoint]:
    """Run `headrace up` with one worker in the home `home` while the context lasts; yield the API's endpoint."""
    port = free_port()
    (home / "store-venv").symlink_to(environment.load(LauncherSettings).folder.path / "store-venv")
    variables = {
        "HEADRACE_HOME": str(home),
        "HEADRACE_PORT": str(port),
        "HEADRACE_RABBITMQ_PORT": str(free_port()),
        "HEADRACE_RABBITMQ_CONSOLE_PORT": str(free_port()),
        "HEADRACE_ASSISTANT": "false",
        "HEADRACE_MODEL": str(model),
        **variables,
    }
    command = [sys.executable, "-m", "infra.cli", "up", "--workers", "1"]
    with running_process(command, variables, f"http://127.0.0.1:{port}/readyz", home / "launcher.log"):
        lines = (home / "client.env").read_text().splitlines()
        key = dict(line.split("=", 1) for line in lines)["OPENAI_API_KEY"]
        yield _endpoint(port, key)


def worker_metrics_url(home: Path) -> str:
    """Return the address of the metrics of the worker that the launcher of the home `home` started."""
    records = ProcessRecords(Home(home).run).all()
    status = next(record.status_url for record in records if record.name.startswith("worker"))
    return status.removesuffix("/status") + "/metrics"


@contextmanager
def headrace_worker(home: Path, model: Path, rabbitmq_port: int, endpoint: Endpoint) -> Iterator[str]:
    """Run one more worker of the platform in `home` while the context lasts; yield its model's name in the API.

    `rabbitmq_port` is that of the platform's broker, and `endpoint` that of its API, which serves another model.
    """
    password = (home / "secrets" / "rabbitmq-worker").read_text().strip()
    ops_port = free_port()
    variables = {
        "HEADRACE_AMQP_URL": f"amqp://worker:{password}@127.0.0.1:{rabbitmq_port}/headrace",
        "HEADRACE_CONTROL_SECRET": (home / "secrets" / "control-secret").read_text().strip(),
        "HEADRACE_OPS_PORT": str(ops_port),
    }
    command = [sys.executable, "-m", "infra.cli", "worker", "--model", str(model), "--id", "worker-further"]
    with running_process(command, variables, f"http://127.0.0.1:{ops_port}/healthz", home / "worker-further.log"):
        yield _listed_model(endpoint.base_url, endpoint.api_key, besides=endpoint.model)


@contextmanager
def llama_server(workspace: PeerWorkspace) -> Iterator[Endpoint]:
    """Run llama.cpp's server (continuous batching, Q4_0 weights) while the context lasts; yield its API's endpoint."""
    port, threads, peer = free_port(), str(workspace.threads), LlamaCpp(workspace)
    command = [str(peer.programs / "llama-server"), "-m", str(workspace.gguf("Q4_0")), "--port", str(port)]
    command += ["-np", str(SLOTS), "-c", str(SLOTS * 512), "-fa", "on", "-t", threads, "-tb", threads]
    with running_process(command, {}, f"http://127.0.0.1:{port}/health", workspace.folder / "llama-server.log"):
        yield _endpoint(port, "none")


@contextmanager
def vllm_server(workspace: PeerWorkspace, *options: str, model: Path | None = None) -> Iterator[Endpoint]:
    """Run vLLM's OpenAI server with extra command line `options` while the context lasts; yield its endpoint."""
    port, peer = free_port(), Vllm(workspace)
    # By its module, because the `vllm` command looks for a package of another name.
    command = [str(peer.python), "-m", "vllm.entrypoints.openai.api_server", "--model", str(model or peer.model)]
    command += ["--port", str(port), "--dtype", peer.variables["PEER_DTYPE"], "--max-model-len", str(CONTEXT)]
    command += ["--max-num-seqs", str(SLOTS), "--no-enable-prefix-caching", *options]
    variables = {**peer.variables, "HF_HUB_OFFLINE": "1"}
    with running_process(
        command, variables, f"http://127.0.0.1:{port}/health", workspace.folder / f"vllm-server-{port}.log"
    ):
        yield _endpoint(port, "none")


SERVERS: dict[str, Server] = {
    "headrace": headrace,
    "headrace-no-speculation": partial(headrace, speculation="off"),
    "headrace-8-bit": partial(headrace, activation_bits=8),
    "llama-server": llama_server,
    "vllm": vllm_server,
}


def _endpoint(port: int, key: str) -> Endpoint:
    """Wait until the server lists a model: ours is ready for requests before its worker has loaded one.

    Raises:
        ServerFailed: it lists none within `START_TIMEOUT`.
    """
    base_url = f"http://127.0.0.1:{port}/v1"
    return Endpoint(base_url, key, _listed_model(base_url, key))


def _listed_model(base_url: str, key: str, *, besides: str = "") -> str:
    """Wait until an API lists a model, other than `besides`, and return its name.

    Raises:
        ServerFailed: it lists none within `START_TIMEOUT`.
    """
    deadline = time.monotonic() + START_TIMEOUT
    while time.monotonic() < deadline:
        answer = httpx.get(f"{base_url}/models", headers={"Authorization": f"Bearer {key}"}, timeout=10)
        models = [each["id"] for each in answer.json()["data"]] if answer.status_code == httpx.codes.OK else []
        if found := next((each for each in models if each != besides), None):
            return str(found)
        time.sleep(0.2)
    raise ServerFailed(f"no model after {START_TIMEOUT:.0f} s")


@contextmanager
def running_process(
    command: Sequence[str], variables: Mapping[str, str], health: str, log: Path
) -> Iterator[subprocess.Popen[bytes]]:
    """Run a server while the context lasts: yield it once its URL `health` answers 200, end it with its children.

    Args:
        command: the command line.
        variables: further environment variables.
        log: file for its output.

    Raises:
        ServerFailed: the process ended, or did not become healthy in time.
    """
    with log.open("wb") as output:
        process = subprocess.Popen(
            command,
            cwd=ROOT,
            env={**os.environ, **variables},
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=output,
            start_new_session=True,
        )
    try:
        _until_healthy(process, health, log)
        yield process
    finally:
        _end(process)


def _until_healthy(process: subprocess.Popen[bytes], health: str, log: Path) -> None:
    deadline = time.monotonic() + START_TIMEOUT
    while time.monotonic() < deadline and process.poll() is None:
        try:
            if httpx.get(health, timeout=5).status_code == httpx.codes.OK:
                return
        except httpx.HTTPError:
            pass  # not there yet
        time.sleep(0.2)
    lines = log.read_text(errors="replace").strip().splitlines() or ["no output"]
    raise ServerFailed(lines[-1][:300])


def _end(process: subprocess.Popen[bytes]) -> None:
    """Terminate the process, which stops its children, then kill what is left of its session."""
    process.terminate()
    try:
        process.wait(STOP_TIMEOUT)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()
    with suppress(ProcessLookupError):  # nothing is left of it
        os.killpg(process.pid, signal.SIGKILL)
