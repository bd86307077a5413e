"""Measures the peer engine OpenVINO GenAI: its continuous batching, on the model's GGUF requantised to Q4_0."""

from __future__ import annotations

from pathlib import Path

from benchmarks.peers.peer import PythonPeer


class OpenVino(PythonPeer):
    """OpenVINO GenAI with Q4_0 weights, which were faster than Q8_0 at every batch size tried."""

    name = "OpenVINO GenAI"
    setting = "ContinuousBatchingPipeline, Q4_0 GGUF"
    environment = "openvino"
    packages = ("openvino-genai>=2026.4,<2027",)
    runner = "openvino_genai_runner"

    @property
    def model(self) -> Path:
        """Path of the Q4_0 GGUF file that OpenVINO GenAI loads; the peer llama.cpp requantises it."""
        return self.workspace.gguf("Q4_0")
