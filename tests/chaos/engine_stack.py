"""Platforms whose workers run real engines instead of counting ones."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

from infra.install.models import MODEL_FILE
from infra.launcher.processes import WORKER
from infra.launcher.readiness import status_is_started
from infra.launcher.supervisor import ProcessSpec
from tests.chaos.stack import Stack
from tests.e2e.launcher_process import INSTALLED
from tests.e2e.launcher_process import MODEL as REAL_MODEL


class EngineStack(Stack):
    """A platform whose workers serve `weights` as `model`, each on one thread; subclasses define both."""

    @property
    def weights(self) -> Path:
        """File or folder of the model."""
        raise NotImplementedError

    @property
    def engine_settings(self) -> Mapping[str, str]:
        """Further environment variables of the workers."""
        return {}

    def spec(self, name: str) -> ProcessSpec:
        """Return how a process is run."""
        if name not in self.workers:
            return super().spec(name)
        own = {
            "HEADRACE_AMQP_URL": self._amqp("worker", name),
            "HEADRACE_CONTROL_SECRET": self.processes.control_secret,
            "HEADRACE_MODEL": str(self.weights),
            "HEADRACE_SERVED_MODEL_NAME": self.model,
            "HEADRACE_THREADS": "1",
            **self.engine_settings,
        }
        spec = self._spec(name, ["infra.cli", "worker", "--id", name], WORKER, own)
        return replace(spec, ready=status_is_started(spec.status_url))


class RealStack(EngineStack):
    """A platform whose workers serve the installed chat model."""

    @property
    def model(self) -> str:
        """Name of the model that clients ask."""
        return REAL_MODEL

    @property
    def weights(self) -> Path:
        """File of the model."""
        return INSTALLED / "models" / MODEL_FILE

    @property
    def engine_settings(self) -> Mapping[str, str]:
        """Limits of the engines."""
        return {"HEADRACE_MAX_NUM_SEQS": str(self.size.capacity), "HEADRACE_KV_CACHE_MEMORY": "256MiB"}
