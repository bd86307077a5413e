"""The port to a peer: install it, and time sizes of work. One file a peer; ours is one of them.

A size is timed in a fresh process after a warm-up, the load not counted: seconds from the prompts (token ids) handed
over to the last token of the last sequence, of short sizes the median of several runs. Greedy, end of sequence ignored.
"""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar

import torch

from benchmarks.results import ROOT
from inference_worker.engine.loading.dtypes import weight_dtype
from infra.install.steps import make_venv, run

RUNNERS = "benchmarks.peers.runners"
"""Programs for the peers' interpreters; started in the checkout, they find it there."""

DTYPE = str(weight_dtype("auto", torch.device("cpu"))).removeprefix("torch.")
"""What PyTorch multiplies fastest on this processor: bfloat16 if it has instructions for it, else float32."""


@dataclass(frozen=True)
class Size:
    """So many sequences together, each of so many prompt and output tokens. A prefill has one output token."""

    sequences: int
    inputs: int
    outputs: int


@dataclass(frozen=True)
class Place:
    """Where peers live: `folder` for environments, `model` is our GGUF, made into what each peer reads."""

    folder: Path
    model: Path
    threads: int

    @property
    def log(self) -> Path:
        """Everything that installers say."""
        return self.folder / "install.log"

    @property
    def safetensors(self) -> Path:
        """The model as a Hugging Face folder in bfloat16."""
        return self.folder / "models" / self.model.stem

    def gguf(self, kind: str) -> Path:
        """The model requantised, for example to Q4_0."""
        return self.folder / "models" / f"{self.model.stem}.{kind}.gguf"


class PeerFailed(Exception):
    """A peer could not be installed or run here; the message is its own last word."""


class Peer(ABC):
    """One engine with its best setting."""

    name: str
    setting: str
    """In words, for the document."""
    ours: bool = False

    def __init__(self, place: Place) -> None:
        self.place = place

    @abstractmethod
    def install(self) -> None:
        """Make it ready, quickly if it is.

        Raises:
            StepFailed: it can't be had.
        """

    @abstractmethod
    def version(self) -> str:
        """Of what was installed."""

    @abstractmethod
    def measure(self, sizes: Sequence[Size]) -> dict[Size, float]:
        """Seconds of each size.

        Raises:
            PeerFailed: it can't run here.
        """


class PythonPeer(Peer):
    """A peer with a module in `runners/`, in a virtual environment of its own."""

    environment: str
    packages: tuple[str, ...]
    runner: str
    variables: ClassVar[Mapping[str, str]] = {}

    @property
    def python(self) -> Path:
        """Of its environment."""
        return self.place.folder / self.environment / "bin" / "python"

    @property
    @abstractmethod
    def model(self) -> Path:
        """What it loads."""

    def install(self) -> None:
        """Its environment with its packages."""
        install_packages(self.python, self.packages, self.place.log)

    def version(self) -> str:
        """Of its first package."""
        package = re.split("[=<>]", self.packages[0], maxsplit=1)[0]
        return output([str(self.python), "-c", f"from importlib.metadata import version as v; print(v('{package}'))"])

    def measure(self, sizes: Sequence[Size]) -> dict[Size, float]:
        """See `Peer.measure`."""
        asked = json.dumps([[size.sequences, size.inputs, size.outputs] for size in sizes])
        said = output([str(self.python), "-m", f"{RUNNERS}.{self.runner}", str(self.model), asked], self.variables)
        lines = [json.loads(line) for line in said.splitlines() if line.startswith('{"size"')]
        return {Size(*line["size"]): float(line["seconds"]) for line in lines}


class SafetensorsPeer(PythonPeer):
    """One that reads a Hugging Face folder, which is written when it is first wanted, by our own interpreter."""

    @property
    def model(self) -> Path:
        """The folder."""
        return self.place.safetensors

    def install(self) -> None:
        """Its environment, and the folder."""
        super().install()
        if not (self.model / "model.safetensors").is_file():
            writer = "benchmarks.peers.write_safetensors"
            run([sys.executable, "-m", writer, str(self.place.model), str(self.model)], self.place.log)


def install_packages(python: Path, packages: Sequence[str], log: Path) -> None:
    """A virtual environment with `packages`, unless it has been made.

    Raises:
        StepFailed: it can't be made.
    """
    stamp = python.parent.parent / "headrace.stamp"
    if stamp.is_file() and stamp.read_text() == " ".join(packages):
        return
    make_venv(python.parent.parent, log)
    run([str(python), "-m", "pip", "install", *packages], log)
    stamp.write_text(" ".join(packages))


def output(command: Sequence[str], variables: Mapping[str, str] | None = None) -> str:
    """What a program prints.

    Raises:
        PeerFailed: it failed; with the last line that it said.
    """
    environment = {**os.environ, "HF_HUB_OFFLINE": "1", **(variables or {})}
    environment.pop("PYTHONPATH", None)
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False, env=environment)
    if done.returncode != 0:
        lines = (done.stderr or done.stdout).strip().splitlines() or [f"status {done.returncode}"]
        raise PeerFailed(lines[-1][:300])
    return done.stdout.strip()
