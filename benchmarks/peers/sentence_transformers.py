"""Measures the peer Sentence Transformers, which embeds texts."""

from __future__ import annotations

import json
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from benchmarks.peers.peer import RUNNERS, install_packages, run_program

PACKAGES = ("sentence-transformers>=5,<6", "torch==2.13.0")


@dataclass(frozen=True)
class SentenceTransformers:
    """`encode` in float32 with its default batches of 32 texts, in a virtual environment below `folder`."""

    folder: Path
    model: Path
    threads: int
    name: str = "sentence-transformers"

    @property
    def python(self) -> Path:
        """Path of the Python interpreter of the peer's virtual environment."""
        return self.folder / self.name / "bin" / "python"

    def install(self) -> None:
        """Create the virtual environment with the peer's packages, unless it exists.

        Raises:
            StepFailed: the installation failed.
        """
        install_packages(self.python, PACKAGES, self.folder / "install.log")

    def version(self) -> str:
        """Return the installed version."""
        return run_program(
            [str(self.python), "-c", f"from importlib.metadata import version as v; print(v('{self.name}'))"]
        )

    def embed(self, texts: Sequence[str]) -> tuple[float, list[float]]:
        """Embed texts in a fresh process; return the seconds after loading and a warm-up, and the first text's vector.

        Raises:
            PeerFailed: the peer can't run here.
        """
        with tempfile.NamedTemporaryFile("w", suffix=".json") as file:
            json.dump(texts, file)
            file.flush()
            runner = f"{RUNNERS}.sentence_transformers_runner"
            printed = run_program([str(self.python), "-m", runner, str(self.model), file.name, str(self.threads)])
        measured = json.loads(printed.splitlines()[-1])
        return measured["seconds"], measured["vector"]
