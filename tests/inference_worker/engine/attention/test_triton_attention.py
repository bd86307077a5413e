"""The Triton kernels, run by Triton's interpreter on the CPU, compute what the reference computes."""

from __future__ import annotations

import importlib.util
from dataclasses import replace
from typing import Any

import pytest
import torch

from inference_worker.engine.attention.reference import ReferenceAttention
from inference_worker.engine.attention.registry import select_backend
from inference_worker.engine.attention_backend import AttentionInputs, AttentionMetadata
from inference_worker.engine.kv_cache import KVCache, KVCacheShape, dequantise, quantise
from inference_worker.errors import UnsupportedModel
from tests.inference_worker.engine.attention.test_attention import make_metadata

if importlib.util.find_spec("triton") is None:
    pytest.skip("triton is not installed: there are builds for Linux only", allow_module_level=True)

from inference_worker.engine.attention.triton_attention import TritonAttention

CPU = torch.device("cpu")
PROMPTS = [(0, 33), (0, 1), (0, 8)]
SINGLE = [(0, 1), (95, 1), (16, 1), (299, 1)]
MIXED = [(47, 1), (0, 19), (31, 1), (16, 17), (130, 3)]


def filled_cache(
    kv_heads: int, head_size: int, blocks: int = 2, block_size: int = 16, dtype: torch.dtype = torch.float32
) -> KVCache:
    """Noise, and NaN in block 0, which no sequence owns: padding points there."""
    cache = KVCache(KVCacheShape(1, kv_heads, head_size, block_size, dtype), blocks, CPU)
    generator = torch.Generator().manual_seed(3)
    for side in (*cache.keys, *cache.values):
        noise = torch.randn((*side.shape[:-1], head_size), generator=generator)
        noise[0] = float("nan")
        side.copy_(quantise(noise) if dtype == torch.int8 else noise)
    return cache


def elsewhere(metadata: AttentionMetadata, block_size: int) -> AttentionMetadata:
    """The same step with nothing in block 0."""
    lengths = metadata.sequence_lengths[:, None]
    width = metadata.block_tables.shape[1]
    held = torch.arange(width) < -(-lengths // block_size)
    return replace(
        metadata,
        block_tables=torch.where(held, metadata.block_tables + 1, 0),
        slot_mapping=metadata.slot_mapping + block_size,
    )


def both(
    spans: list[tuple[int, int]],
    *,
    heads: tuple[int, int] = (6, 2),
    head_size: int = 64,
    block_size: int = 16,
    dtype: torch.dtype = torch.float32,
    cache_dtype: torch.dtype | None = None,
    window: int | None = None,
    softcap: float | None = None,
    with_sinks: bool = False,
) -> tuple[torch.Tensor, torch.Tensor]:
    """Output of the kernels and of the reference; their caches must agree too."""
    blocks = sum(-(-(before + count) // block_size) for before, count in spans) + 1
    metadata = elsewhere(make_metadata(spans, block_size, blocks - 1, seed=5), block_size)
    generator = torch.Generator().manual_seed(7)
    states = torch.randn(sum(count for _, count in spans), heads[0] + 2 * heads[1], head_size, generator=generator)
    # Parts of one projection: rows lie apart, as they do in the models.
    query, key, value = states.to(dtype).split([heads[0], heads[1], heads[1]], dim=1)
    sinks = torch.randn(heads[0], generator=generator) * 3 if with_sinks else None
    inputs = AttentionInputs(0, query, key, value, 0.2, window, softcap, sinks)
    caches = [filled_cache(heads[1], head_size, blocks, block_size, cache_dtype or dtype) for _ in range(2)]
    output, expected = (
        backend(cache).forward(inputs, metadata)
        for backend, cache in zip((TritonAttention, ReferenceAttention), caches, strict=True)
    )
    for ours, theirs in zip(caches[0].keys + caches[0].values, caches[1].keys + caches[1].values, strict=True):
        assert torch.equal(ours[1:], theirs[1:])
    return output, expected


@pytest.mark.parametrize("spans", [PROMPTS, SINGLE, MIXED], ids=["prompts", "single", "mixed"])
@pytest.mark.parametrize(
    "shape",
    [
        {"heads": (2, 2)},
        {"heads": (6, 2)},
        {"heads": (4, 1), "head_size": 128},
        {"heads": (3, 1), "head_size": 24, "block_size": 4},
        {"heads": (20, 1), "head_size": 16, "block_size": 5},
        {"window": 20},
        {"window": 1, "heads": (4, 1)},
        {"softcap": 1.5},
        {"with_sinks": True},
        {"with_sinks": True, "softcap": 1.5, "window": 20, "heads": (4, 1)},
    ],
    ids=str,
)
def test_equals_the_reference(spans: list[tuple[int, int]], shape: dict[str, Any]) -> None:
    output, expected = both(spans, **shape)
    torch.testing.assert_close(output, expected, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("spans", [SINGLE, MIXED], ids=["single", "mixed"])
@pytest.mark.parametrize(("dtype", "allowed"), [(torch.bfloat16, 2e-2), (torch.float16, 2e-3)])
def test_short_formats(spans: list[tuple[int, int]], dtype: torch.dtype, allowed: float) -> None:
    output, expected = both(spans, dtype=dtype)
    assert output.dtype == dtype
    torch.testing.assert_close(output.float(), expected.float(), rtol=allowed, atol=allowed)


def test_only_few_single_queries_split_the_context() -> None:
    backend = TritonAttention(filled_cache(kv_heads=2, head_size=64))
    assert backend.splits(len(SINGLE)) > 1  # what the tests above ran
    assert backend.splits(512) == 1
    assert backend.splits(1) & (backend.splits(1) - 1) == 0


def test_many_single_queries_without_splits() -> None:
    output, expected = both([(n, 1) for n in range(17)], heads=(2, 1), head_size=16)
    torch.testing.assert_close(output, expected, rtol=1e-5, atol=1e-5)


def test_an_idle_row_stores_nothing_and_gets_zero() -> None:
    """Captured steps have fixed sizes: idle rows have length 0 and slot -1."""
    cache = filled_cache(kv_heads=1, head_size=16)
    before = [side.clone() for side in cache.keys + cache.values]
    metadata = AttentionMetadata(
        query_start=torch.arange(3),
        sequence_lengths=torch.tensor([0, 0]),
        block_tables=torch.zeros(2, 4, dtype=torch.int64),
        slot_mapping=torch.tensor([-1, -1]),
        max_query_length=1,
        max_sequence_length=0,
    )
    states = torch.randn(2, 2, 16)
    inputs = AttentionInputs(0, states, states[:, :1], states[:, :1], 1.0)
    output = TritonAttention(cache).forward(inputs, metadata)
    assert torch.equal(output, torch.zeros(2, 2, 16))
    for side, was in zip(cache.keys + cache.values, before, strict=True):
        assert torch.equal(side.nan_to_num(), was.nan_to_num())


@pytest.mark.parametrize("spans", [PROMPTS, SINGLE, MIXED], ids=["prompts", "single", "mixed"])
@pytest.mark.parametrize(
    "shape",
    [
        {"heads": (6, 2)},
        {"heads": (3, 1), "head_size": 24, "block_size": 4},
        {"window": 20, "heads": (4, 1), "head_size": 128},
        {"softcap": 2.0, "with_sinks": True},
    ],
    ids=str,
)
def test_an_int8_cache_equals_the_reference(spans: list[tuple[int, int]], shape: dict[str, Any]) -> None:
    """New keys and values are rounded to the same bytes, and the attention is that of the dequantised cache."""
    output, expected = both(spans, cache_dtype=torch.int8, **shape)
    torch.testing.assert_close(output, expected, rtol=1e-5, atol=1e-5)


def test_an_int8_cache_of_a_short_format() -> None:
    output, expected = both(MIXED, dtype=torch.bfloat16, cache_dtype=torch.int8)
    torch.testing.assert_close(output.float(), expected.float(), rtol=2e-2, atol=2e-2)


def test_a_vector_of_zeros_in_an_int8_cache() -> None:
    cache = filled_cache(kv_heads=2, head_size=16, dtype=torch.int8)
    metadata = elsewhere(make_metadata([(0, 1)], 16, 1, seed=1), 16)
    states = torch.zeros(1, 4, 16)
    output = TritonAttention(cache).forward(
        AttentionInputs(0, states[:, :2], states[:, :2], states[:, 2:], 1.0), metadata
    )
    assert torch.equal(output, torch.zeros(1, 2, 16))
    assert torch.equal(dequantise(cache.keys[0][1, 0]), torch.zeros(2, 16))


def test_an_int8_cache_has_aligned_scales() -> None:
    with pytest.raises(UnsupportedModel, match="no multiple of 4"):
        TritonAttention(KVCache(KVCacheShape(1, 1, 18, 16, torch.int8), 1, CPU))


def test_auto_means_triton_on_cuda() -> None:
    assert select_backend("auto", torch.device("cuda")) is TritonAttention
    assert select_backend("triton", CPU) is TritonAttention
