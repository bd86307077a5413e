"""Hugging Face transformers: `generate` on a batch, and its continuous batching."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import ClassVar

from benchmarks.peers.peer import RUNNERS, PythonPeer
from infra.install import run


class Transformers(PythonPeer):
    """Float32, which every processor computes natively."""

    name = "transformers generate"
    setting = "float32, SDPA, one batch of equal lengths"
    environment = "transformers"
    packages = ("transformers>=5.20,<6", "torch==2.13.0", "gguf>=0.17,<1", "accelerate>=1.10,<2", "psutil")
    runner = "transformers_runner"
    variables: ClassVar[Mapping[str, str]] = {"PEER_DTYPE": "float32"}

    @property
    def model(self) -> Path:
        """A folder with safetensors."""
        return self.place.safetensors

    def install(self) -> None:
        """Its environment, and the model's folder, written by it."""
        super().install()
        if not (self.model / "model.safetensors").is_file():
            run(
                [str(self.python), "-m", f"{RUNNERS}.write_safetensors", str(self.place.model), str(self.model)],
                self.place.log,
            )


class TransformersBatching(Transformers):
    """`generate_batch`."""

    name = "transformers continuous batching"
    setting = "float32, paged SDPA"
    runner = "transformers_batching_runner"
