"""The interface of peers: install an engine, and time sizes of work. Each peer has its own file.

A size is timed in a fresh process after loading and a warm-up: seconds from submitting the prompts (token ids) to the
last token of the last sequence; for short sizes the median of several runs. Greedy, end of sequence ignored.
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
from typing import ClassVar, NamedTuple

import torch

from benchmarks.results import ROOT
from inference_worker.engine.loading.dtypes import weight_dtype
from infra.install.python_packages import make_venv
from infra.install.step import run

RUNNERS = "benchmarks.peers.runners"
"""Package of the programs that run in the peers' interpreters, with the checkout as their working directory."""

DTYPE = str(weight_dtype("auto", torch.device("cpu"))).removeprefix("torch.")
"""The dtype that PyTorch multiplies fastest on this processor: bfloat16 if it has instructions for it, else float32."""


class Size(NamedTuple):
    """A batch: a number of sequences, with prompt and output tokens of each. A prefill has one output token."""

    sequences: int
    inputs: int
    outputs: int


@dataclass(frozen=True)
class PeerWorkspace:
    """The peers' folder of environments, our GGUF `model`, from which theirs are converted, and the thread count."""

    folder: Path
    model: Path
    threads: int

    @property
    def log(self) -> Path:
        """Log file of the installations."""
        return self.folder / "install.log"

    @property
    def safetensors(self) -> Path:
        """Path of the model as a Hugging Face folder in bfloat16."""
        return self.folder / "models" / self.model.stem

    def gguf(self, kind: str) -> Path:
        """Return the path for the model's GGUF file requantised to `kind`, for example Q4_0; it may not exist yet."""
        return self.folder / "models" / f"{self.model.stem}.{kind}.gguf"


class PeerFailed(Exception):
    """Raised when a peer can't be installed or run; the message is its last line of output."""


class Peer(ABC):
    """An engine in its fastest configuration."""

    name: str
    setting: str
    """Description of the configuration for the document."""
    ours: bool = False

    def __init__(self, workspace: PeerWorkspace) -> None:
        self.workspace = workspace

    @abstractmethod
    def install(self) -> None:
        """Install the peer engine, with its models, unless it is installed.

        Raises:
            StepFailed: the installation failed.
        """

    @abstractmethod
    def version(self) -> str:
        """Return the version of the peer engine that is installed."""

    @abstractmethod
    def measure(self, sizes: Sequence[Size]) -> dict[Size, float]:
        """Run the engine at each batch size; return the median seconds of a run, by size.

        Raises:
            PeerFailed: the peer can't run here.
        """


class PythonPeer(Peer):
    """A peer with a module in `runners/` and its own virtual environment."""

    environment: str
    packages: tuple[str, ...]
    runner: str
    variables: ClassVar[Mapping[str, str]] = {}

    @property
    def python(self) -> Path:
        """Path of the Python interpreter of the peer's virtual environment."""
        return self.workspace.folder / self.environment / "bin" / "python"

    @property
    @abstractmethod
    def model(self) -> Path:
        """Path of the model that the peer loads."""

    def install(self) -> None:
        """Create the peer's virtual environment with its packages, unless it exists."""
        install_packages(self.python, self.packages, self.workspace.log)

    def version(self) -> str:
        """Return the installed version of the first package in `packages`, the peer engine."""
        package = re.split("[=<>]", self.packages[0], maxsplit=1)[0]
        return run_program(
            [str(self.python), "-c", f"from importlib.metadata import version as v; print(v('{package}'))"]
        )

    def measure(self, sizes: Sequence[Size]) -> dict[Size, float]:
        """Run the peer's runner in its environment at each batch size; return the median seconds of a run, by size."""
        return run_sizes([str(self.python), "-m", f"{RUNNERS}.{self.runner}", str(self.model)], sizes, self.variables)


class SafetensorsPeer(PythonPeer):
    """A peer that reads a Hugging Face folder, which is written by our interpreter on first use."""

    @property
    def model(self) -> Path:
        """Path of the model as a Hugging Face folder, which `install` creates."""
        return self.workspace.safetensors

    def install(self) -> None:
        """Create the peer's virtual environment and convert the model to a Hugging Face folder, unless they exist."""
        super().install()
        if not (self.model / "model.safetensors").is_file():
            writer = "benchmarks.peers.write_safetensors"
            run([sys.executable, "-m", writer, str(self.workspace.model), str(self.model)], self.workspace.log)


def install_packages(python: Path, packages: Sequence[str], log: Path) -> None:
    """Create a virtual environment with `packages`, unless it exists.

    Raises:
        StepFailed: the installation failed.
    """
    stamp = python.parent.parent / "headrace.stamp"
    if stamp.is_file() and stamp.read_text() == " ".join(packages):
        return
    make_venv(python.parent.parent, log)
    run([str(python), "-m", "pip", "install", *packages], log)
    stamp.write_text(" ".join(packages))


def run_sizes(
    runner: Sequence[str],
    sizes: Sequence[Size],
    variables: Mapping[str, str] | None = None,
    options: Sequence[str] = (),
) -> dict[Size, float]:
    """Run a runner's command, followed by the sizes (`runners/protocol.py`) and `options`; return each size's seconds.

    Raises:
        PeerFailed: the program failed.
    """
    printed = run_program([*runner, json.dumps(sizes), *options], variables)
    lines = [json.loads(line) for line in printed.splitlines() if line.startswith('{"size"')]
    return {Size(*line["size"]): float(line["seconds"]) for line in lines}


def run_program(command: Sequence[str], variables: Mapping[str, str] | None = None) -> str:
    """Run a program from the checkout's root and return its standard output, stripped.

    Raises:
        PeerFailed: the program failed; the message is its last line of output.
    """
    environment = {**os.environ, "HF_HUB_OFFLINE": "1", **(variables or {})}
    environment.pop("PYTHONPATH", None)
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False, env=environment)
    if done.returncode != 0:
        lines = (done.stderr or done.stdout).strip().splitlines() or [f"status {done.returncode}"]
        raise PeerFailed(lines[-1][:300])
    return done.stdout.strip()
