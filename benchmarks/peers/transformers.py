"""Hugging Face transformers: `generate` on a batch, and its continuous batching."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import ClassVar

from benchmarks.peers.peer import DTYPE, RUNNERS, PythonPeer
from infra.install import run


class Transformers(PythonPeer):
    """In what the processor multiplies fastest."""

    name = "transformers generate"
    setting = f"{DTYPE}, SDPA, one batch of equal lengths"
    environment = "transformers"
    packages = ("transformers>=5.20,<6", "torch==2.13.0", "gguf>=0.17,<1", "accelerate>=1.10,<2", "psutil")
    runner = "transformers_runner"
    variables: ClassVar[Mapping[str, str]] = {"PEER_DTYPE": DTYPE}

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
    setting = f"{DTYPE}, paged SDPA"
    runner = "transformers_batching_runner"
