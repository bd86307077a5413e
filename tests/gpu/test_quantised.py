"""Quantised weights and the int8 KV cache on a GPU; run as `test_cuda.py` says.

The expected results are those of PyTorch with dequantised matrices and caches.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch

pytest.importorskip("triton", reason="there are builds of Triton for Linux only")

from torch.nn import functional

from inference_worker.engine.attention.reference import ReferenceAttention
from inference_worker.engine.attention.triton_attention import TritonAttention
from inference_worker.engine.attention_backend import AttentionInputs
from inference_worker.engine.engine import Engine
from inference_worker.engine.execution.graph_runner import GraphRunner
from inference_worker.engine.kv_cache import KVCache, KVCacheShape, quantise
from inference_worker.engine.layers.fused_decoder import project_row
from inference_worker.engine.layers.quantised_linear import QuantisedLinear
from inference_worker.engine.layers.rms_norm import RMSNorm
from inference_worker.settings import EngineSettings
from tests.fakes.quantised_models import save_quantised
from tests.gpu.test_cuda import ALLOWED, CUDA, SPANS, on_device, pytestmark  # noqa: F401 - of this module too
from tests.inference_worker.engine.attention.test_attention import make_metadata
from tests.inference_worker.engine.layers.test_quantised_linear import FORMATS, drawn
from tests.inference_worker.engine.weights.test_quantised_folder import LAYOUTS
from tests.inference_worker.generation import generate, ids, prompts, request

TOLERATED = {torch.float32: 1e-5, torch.float16: 2e-3, torch.bfloat16: 1e-2}
"""Norm of the error of a product in that of the product."""


def error(output: torch.Tensor, expected: torch.Tensor) -> float:
    return float((output.float() - expected).norm() / expected.norm())


@pytest.mark.parametrize("name", FORMATS)
@pytest.mark.parametrize("dtype", TOLERATED, ids=str)
@pytest.mark.parametrize(("outputs", "inputs", "wide"), [(1152, 576, False), (4096, 4096, True), (100, 14_336, False)])
def test_products(name: str, dtype: torch.dtype, outputs: int, inputs: int, wide: bool) -> None:
    values = drawn(name, outputs, inputs, wide=wide)
    torch.manual_seed(1)
    bias = torch.randn(outputs).to(dtype)
    linear, weight = QuantisedLinear(values, bias, CUDA), values.dequantise().to(CUDA)
    for rows in (1, 3, 16, 17, 64, 500):
        x = torch.randn(rows, inputs, device=CUDA).to(dtype)
        expected = functional.linear(x.double(), weight.double(), bias.to(CUDA).double()).float()
        assert error(linear(x), expected) < TOLERATED[dtype], rows


@pytest.mark.parametrize("name", FORMATS)
@pytest.mark.parametrize("dtype", TOLERATED, ids=str)
def test_the_fused_projection_of_one_row(name: str, dtype: torch.dtype) -> None:
    values = drawn(name, 3072, 576)
    linear, weight = QuantisedLinear(values, None, CUDA), values.dequantise().to(CUDA)
    norm = RMSNorm(576, 1e-5, dtype=dtype).to(CUDA)
    norm.weight.fill_(1.0)
    torch.manual_seed(1)
    x = torch.randn(1, 576, device=CUDA).to(dtype)
    normed = x.float() * (x.float().pow(2).mean() + 1e-5).rsqrt()
    gate, up = functional.linear(normed.double(), weight.double()).float().chunk(2, dim=-1)
    expected = functional.silu(gate) * up
    assert error(project_row(x, linear, norm=norm, gate=True), expected) < TOLERATED[dtype]


@pytest.mark.parametrize("spans", SPANS)
@pytest.mark.parametrize("dtype", ALLOWED, ids=str)
@pytest.mark.parametrize(("heads", "head_size"), [((9, 3), 64), ((32, 8), 128)], ids=str)
def test_an_int8_cache(spans: str, dtype: torch.dtype, heads: tuple[int, int], head_size: int) -> None:
    where = SPANS[spans]
    blocks = sum(-(-(before + count) // 16) for before, count in where)
    metadata = on_device(make_metadata(where, 16, blocks, seed=1))
    torch.manual_seed(2)
    caches = [KVCache(KVCacheShape(1, heads[1], head_size, 16, torch.int8), blocks, CUDA) for _ in range(2)]
    for side, other in ((caches[0].keys, caches[1].keys), (caches[0].values, caches[1].values)):
        side[0].copy_(quantise(torch.randn(*side[0].shape[:-1], head_size, device=CUDA)))
        other[0].copy_(side[0])
    states = torch.randn(sum(count for _, count in where), heads[0] + 2 * heads[1], head_size, device=CUDA).to(dtype)
    query, key, value = states.split([heads[0], heads[1], heads[1]], dim=1)
    inputs = AttentionInputs(0, query, key, value, head_size**-0.5, None)
    output, expected = (
        backend(cache).forward(inputs, metadata)
        for backend, cache in zip((TritonAttention, ReferenceAttention), caches, strict=True)
    )
    # A number between two codes may be rounded to the other one.
    allowed = max(ALLOWED[dtype], 4e-3)
    torch.testing.assert_close(output.float(), expected.float(), rtol=allowed, atol=allowed)


@pytest.mark.parametrize("layout", ["awq", "packed int8", "fp8, channels"])
@pytest.mark.parametrize("cache", ["auto", "int8"])
def test_the_engine_says_the_same(layout: str, cache: str, tmp_path: Path) -> None:
    """Captured steps with quantised weights, beside dequantised ones in float32 on the CPU."""
    config, write, *_ = LAYOUTS[layout]
    save_quantised(tmp_path, config, write, num_hidden_layers=3, max_position_embeddings=256)
    wanted = [
        request(f"r{i}", prompt, max_tokens=30, seed=i, temperature=0.7 * (i % 2))
        for i, prompt in enumerate(prompts(20, seed=3, longest=60, vocab_size=97))
    ]
    outcomes = []
    devices: dict[str, dict[str, Any]] = {
        "cpu": {"attention": "reference", "quantization": "none"},
        "cuda": {"quantization": "auto"},
    }
    for device, settings in devices.items():
        engine = Engine.from_settings(
            EngineSettings(
                model=str(tmp_path),
                device=device,
                dtype="float32",
                kv_cache_dtype=cache,
                num_kv_blocks=400,
                max_num_seqs=9,
                **settings,
            )
        )
        assert isinstance(engine.runner, GraphRunner) == (device == "cuda")
        assert (engine.ready().quantization == "none") == (device == "cpu")
        outcomes.append(ids(generate(engine, wanted)))
    # Scales are rounded to float16, and a draw on the edge between two tokens may turn.
    differing = [key for key in outcomes[0] if outcomes[0][key] != outcomes[1][key]]
    assert len(differing) <= len(outcomes[0]) // 5
