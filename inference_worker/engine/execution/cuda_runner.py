"""Builds the generation engine's model runner for CUDA: a fused decoder whose decode steps run as CUDA graphs.

Importing this module loads Triton, so import it only where it is used.
"""

from __future__ import annotations

import time

import structlog

from inference_worker.engine.attention_backend import AttentionBackend
from inference_worker.engine.execution.decode_graphs import CudaCapture
from inference_worker.engine.execution.fault_isolation import IsolatingRunner
from inference_worker.engine.execution.graph_runner import GraphRunner
from inference_worker.engine.execution.model_runner import ModelRunner
from inference_worker.engine.layers.decoder import Decoder
from inference_worker.engine.layers.fused_decoder import FusedDecoder
from inference_worker.engine.sampling.uniform_kernel import uniform
from inference_worker.engine.scheduling.limits import EngineLimits

log = structlog.get_logger(__name__)


def cuda_runner(model: Decoder, attention: AttentionBackend, limits: EngineLimits) -> GraphRunner:
    """Return a runner that computes the planned steps of `model` on CUDA, its decode steps as CUDA graphs.

    Captures the graphs, which takes seconds. `attention` holds the KV cache.
    """
    device = attention.cache.keys[0].device
    started = time.perf_counter()
    runner = IsolatingRunner(ModelRunner(FusedDecoder(model), attention, device))
    captured = GraphRunner(runner, limits, CudaCapture(device), uniform)
    log.info("decode steps captured", sizes=captured.sizes, seconds=round(time.perf_counter() - started, 1))
    return captured
