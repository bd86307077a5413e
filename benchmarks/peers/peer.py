"""Defines the interface of peer engines in the comparison: install an engine, and time batches of given sizes.

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
        """Path of the log file of the peers' installations."""
        return self.folder / "install.log"

    @property
    def safetensors(self) -> Path:
        """Path of the folder with the model in Hugging Face's layout, in bfloat16, for peers that read safetensors."""
        return self.folder / "models" / self.model.stem

    def gguf(self, kind: str) -> Path:
        """Return the path of the model's GGUF file requantised to `kind`, such as Q4_0; the file may not exist yet."""
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
        """Install the peer engine and prepare its model files, unless that is done; each peer implements this.

        Raises:
            StepFailed: the installation failed.
        """

    @abstractmethod
    def version(self) -> str:
        """Return the version of the peer engine that is installed; each peer implements this."""

    @abstractmethod
    def measure(self, sizes: Sequence[Size]) -> dict[Size, float]:
        """Run the peer engine at each batch size, and return the median seconds of a run by size.

        Each peer implements this.

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
        """Path of the model that the peer engine loads; each peer defines it."""

    def install(self) -> None:
        """Create the peer's virtual environment with its packages, unless it exists.

        Raises:
            StepFailed: the installation failed.
        """
        install_packages(self.python, self.packages, self.workspace.log)

    def version(self) -> str:
        """Return the installed version of the peer engine, which is the first of the `packages`."""
        package = re.split("[=<>]", self.packages[0], maxsplit=1)[0]
        return run_program(
            [str(self.python), "-c", f"from importlib.metadata import version as v; print(v('{package}'))"]
        )

    def measure(self, sizes: Sequence[Size]) -> dict[Size, float]:
        """Run the peer's runner in its virtual environment at each batch size; return a run's median seconds by size.

        Raises:
            PeerFailed: the runner failed.
        """
        return run_sizes([str(self.python), "-m", f"{RUNNERS}.{self.runner}", str(self.model)], sizes, self.variables)


class SafetensorsPeer(PythonPeer):
    """A peer that reads a Hugging Face folder, which is written by our interpreter on first use."""

    @property
    def model(self) -> Path:
        """Path of the Hugging Face folder of the model that the peer engine loads; `install` creates it."""
        return self.workspace.safetensors

    def install(self) -> None:
        """Create the peer's virtual environment and convert the model to a Hugging Face folder, unless they exist.

        Raises:
            StepFailed: the installation failed.
        """
        super().install()
        if not (self.model / "model.safetensors").is_file():
            writer = "benchmarks.peers.write_safetensors"
            run([sys.executable, "-m", writer, str(self.workspace.model), str(self.model)], self.workspace.log)


def install_packages(python: Path, packages: Sequence[str], log: Path) -> None:
    """Create the virtual environment of the interpreter `python` and install `packages` in it, unless that is done.

    Output goes to the file `log`.

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
    """Run a peer's runner program once for all batch sizes, and return the median seconds of a run, by size.

    Args:
        runner: the command, to which the sizes (`runners/protocol.py`) and `options` are added.
        variables: further environment variables.

    Raises:
        PeerFailed: the program failed.
    """
    printed = run_program([*runner, json.dumps(sizes), *options], variables)
    lines = [json.loads(line) for line in printed.splitlines() if line.startswith('{"size"')]
    return {Size(*line["size"]): float(line["seconds"]) for line in lines}


def run_program(command: Sequence[str], variables: Mapping[str, str] | None = None) -> str:
    """Run a program from the checkout's root to its end, and return its standard output, stripped.

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
