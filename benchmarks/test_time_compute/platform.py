"""Runs the whole platform (`headrace up`) with a worker of the verifier, for searches by an OpenAI client."""

from __future__ import annotations

import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory

from openai import OpenAI

from benchmarks.client import Endpoint
from benchmarks.servers import START_TIMEOUT, ServerFailed, headrace_in, running_process, worker_metrics_url
from infra.launcher.readiness import free_port

VERIFIER = "verifier"
"""Name under which the verifier is served."""


@dataclass(frozen=True)
class Platform:
    """A running platform: the endpoint of its API with the generating model, and a client of it.

    Attributes:
        metrics: addresses of the metrics of the generator's worker and, if there is one, of the verifier's.
    """

    endpoint: Endpoint
    client: OpenAI
    metrics: tuple[str, ...] = ()

    @property
    def model(self) -> str:
        """Return the name of the generating model."""
        return self.endpoint.model


@contextmanager
def searching_platform(
    model: Path, verifier: Path | None, options: Sequence[str], settings: Mapping[str, str] | None = None
) -> Iterator[Platform]:
    """Run the platform in a temporary home while the context lasts; the worker of the verifier, if any, has `options`.

    `settings` are more environment variables of the platform.

    Raises:
        ServerFailed: a process did not start, or its model was not listed in time.
    """
    with TemporaryDirectory(prefix="headrace-bench-") as folder:
        home, broker = Path(folder), free_port()
        variables = {"HEADRACE_RABBITMQ_PORT": str(broker), "HEADRACE_MAX_WAIT": "600", **(settings or {})}
        with headrace_in(home, model, variables) as endpoint:
            client = OpenAI(base_url=endpoint.base_url, api_key=endpoint.api_key, timeout=600, max_retries=0)
            metrics = (worker_metrics_url(home),)
            if verifier is None:
                yield Platform(endpoint, client, metrics)
                return
            with _verifier_worker(home, broker, verifier, options) as verifier_metrics:
                _wait_until_listed(client)
                yield Platform(endpoint, client, (*metrics, verifier_metrics))


@contextmanager
def _verifier_worker(home: Path, broker: int, verifier: Path, options: Sequence[str]) -> Iterator[str]:
    """Run a worker of the verifier at the RabbitMQ node of the platform in `home`; yield the address of its metrics."""
    password, secret = ((home / "secrets" / name).read_text().strip() for name in ("rabbitmq-worker", "control-secret"))
    variables = {
        "HEADRACE_AMQP_URL": f"amqp://worker:{password}@127.0.0.1:{broker}/headrace",
        "HEADRACE_CONTROL_SECRET": secret,
    }
    port = free_port()
    command = [sys.executable, "-m", "infra.cli", "worker", "--model", str(verifier), *options]
    command += ["--served-model-name", VERIFIER, "--ops-port", str(port), "--id", VERIFIER]
    with running_process(command, variables, f"http://127.0.0.1:{port}/healthz", home / "verifier.log"):
        yield f"http://127.0.0.1:{port}/metrics"


def _wait_until_listed(client: OpenAI) -> None:
    deadline = time.monotonic() + START_TIMEOUT
    while time.monotonic() < deadline:
        if VERIFIER in {model.id for model in client.models.list()}:
            return
        time.sleep(0.2)
    raise ServerFailed(f"no verifier after {START_TIMEOUT:.0f} s")
