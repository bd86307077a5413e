"""Test of the whole GPU path on the CPU: Triton's interpreter runs its kernels, and capture is replaced."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
import torch

from inference_worker.engine.execution.fault_isolation import IsolatingRunner

pytest.importorskip("triton", reason="there are builds of Triton for Linux only")

from inference_worker.engine.engine import Engine
from inference_worker.engine.execution import cuda_runner, graph_runner
from inference_worker.engine.layers.decoder import Decoder
from inference_worker.engine.loading.model_loader import load_model
from inference_worker.model_files.model_source import resolve
from inference_worker.settings import EngineSettings
from tests.fakes.tiny_models import save_tiny
from tests.inference_worker.generation import generate, ids, prompts, request

CPU = torch.device("cpu")


def test_the_cuda_engine_generates_the_same_tokens(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    save_tiny(tmp_path, "llama", num_hidden_layers=1)
    model = load_model(resolve(str(tmp_path)), torch.float32, CPU)
    assert isinstance(model, Decoder)
    wanted = [
        request(f"r{i}", prompt, n=1 + i // 2, temperature=i * 0.7, max_tokens=7 - i, top_k=i * 5)
        for i, prompt in enumerate(prompts(3, seed=6, longest=9))
    ]
    settings = EngineSettings(
        model="tiny", attention="triton", num_kv_blocks=40, max_model_len=80, max_num_seqs=3, block_size=4
    )
    expected = ids(generate(Engine.from_model(model, replace(settings, attention="reference"), torch.float32), wanted))

    monkeypatch.setattr(cuda_runner, "CudaCapture", lambda device: lambda work: work)
    monkeypatch.setattr(graph_runner, "MAX_BATCH_DURATION", 60.0)
    engine = Engine.from_model(model, settings, torch.float32)
    engine.scheduler.limits = replace(engine.scheduler.limits, max_decode_steps=4)
    assert isinstance(engine.runner, IsolatingRunner)
    engine.runner = cuda_runner.cuda_runner(model, engine.runner.runner.attention, engine.scheduler.limits)
    assert ids(generate(engine, wanted)) == expected
    assert engine.runner._seconds, "no step was replayed"
