"""Tests of the memory bound: it counts the model's actual bytes."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
import torch

pytest.importorskip("triton", reason="there are builds of Triton for Linux only")

from benchmarks.gpu_models import SHAPES, bandwidth, bytes_per_step, our_engine
from inference_worker.engine.execution.fault_isolation import IsolatingRunner
from inference_worker.engine.layers.rms_norm import RMSNorm

CPU = torch.device("cpu")


@pytest.mark.parametrize("tied", [True, False])
def test_bytes_per_step(tied: bool) -> None:
    shape = replace(SHAPES["tiny"], tie_word_embeddings=tied)
    engine = our_engine(shape, CPU, sequences=2, context=64)
    assert isinstance(engine.runner, IsolatingRunner)
    model: Any = engine.runner.runner.model
    norms = sum(module.weight.numel() for module in model.modules() if isinstance(module, RMSNorm))
    looked_up = 0 if tied else model.model.embed_tokens.weight.numel()
    weights = sum(parameter.numel() for parameter in model.parameters()) - norms - looked_up
    assert bytes_per_step(shape, 0, 0, 4) == 4 * weights
    cache = engine.runner.runner.attention.cache
    token = cache.shape.bytes_per_block // cache.shape.block_size
    assert bytes_per_step(shape, 3, 50, 4) - bytes_per_step(shape, 0, 0, 4) == 3 * 50 * token


def test_bandwidth_is_that_of_memory() -> None:
    assert 1e8 < bandwidth(CPU, 2**22) < 1e12
