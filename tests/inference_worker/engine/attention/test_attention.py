"""Tests of attention backends: each equals the reference, and the reference equals PyTorch's attention."""

from __future__ import annotations

import math
import random

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch.nn.functional import scaled_dot_product_attention

from inference_worker.engine.attention import sdpa
from inference_worker.engine.attention.reference import ReferenceAttention
from inference_worker.engine.attention.registry import BACKENDS, create_attention, select_backend
from inference_worker.engine.attention_backend import AttentionInputs, AttentionMetadata
from inference_worker.engine.kv_cache import KVCache, KVCacheShape, quantise
from inference_worker.errors import UnsupportedModel

CPU = torch.device("cpu")


def make_cache(
    block_size: int, kv_heads: int, head_size: int, blocks: int, seed: int, dtype: torch.dtype = torch.float32
) -> KVCache:
    """Return a cache filled with noise, because slots outside of a step must not matter."""
    cache = KVCache(KVCacheShape(1, kv_heads, head_size, block_size, dtype), blocks, CPU)
    generator = torch.Generator().manual_seed(seed)
    for side in (*cache.keys, *cache.values):
        noise = torch.randn(*side.shape[:-1], head_size, generator=generator)
        side.copy_(quantise(noise) if dtype is torch.int8 else noise)
    return cache


def make_metadata(
    spans: list[tuple[int, int]], block_size: int, blocks: int, seed: int, prompt_length: int | None = None
) -> AttentionMetadata:
    """Sequences of (tokens before the step, tokens in it), their blocks scattered over the cache.

    Tokens from `prompt_length` on were generated; None: all are of prompts.
    """
    order = random.Random(seed).sample(range(blocks), blocks)
    lengths = [before + count for before, count in spans]
    tables = [[order.pop() for _ in range(-(-length // block_size))] for length in lengths]
    slots = [
        table[position // block_size] * block_size + position % block_size
        for table, (before, count) in zip(tables, spans, strict=True)
        for position in range(before, before + count)
    ]
    starts = [sum(count for _, count in spans[:i]) for i in range(len(spans) + 1)]
    widest = max(map(len, tables))
    return AttentionMetadata(
        query_start=torch.tensor(starts),
        sequence_lengths=torch.tensor(lengths),
        block_tables=torch.tensor([table + [0] * (widest - len(table)) for table in tables]),
        slot_mapping=torch.tensor(slots),
        max_query_length=max(count for _, count in spans),
        max_sequence_length=max(lengths),
        prompt_lengths=None if prompt_length is None else torch.full((len(spans),), prompt_length),
    )


def test_reference_is_attention() -> None:
    """One whole sequence against PyTorch's own."""
    query, key, value = (torch.randn(13, heads, 8) for heads in (4, 2, 2))
    backend = ReferenceAttention(make_cache(4, 2, 8, 9, seed=1))
    output = backend.forward(AttentionInputs(0, query, key, value, 0.3), make_metadata([(0, 13)], 4, 9, seed=2))
    expected = scaled_dot_product_attention(
        query.transpose(0, 1), key.transpose(0, 1), value.transpose(0, 1), is_causal=True, scale=0.3, enable_gqa=True
    )
    torch.testing.assert_close(output, expected.transpose(0, 1))


def test_reference_window_sees_itself_and_those_just_before() -> None:
    query, key = torch.zeros(6, 1, 1), torch.zeros(6, 1, 1)
    value = torch.arange(6.0)[:, None, None]
    backend = ReferenceAttention(make_cache(4, 1, 1, 2, seed=1))
    metadata = make_metadata([(0, 6)], 4, 2, seed=2)
    output = backend.forward(AttentionInputs(0, query, key, value, 1.0, 3), metadata)
    assert output.flatten().tolist() == pytest.approx([0, 0.5, 1, 2, 3, 4])


def test_a_sink_is_a_position_without_a_value() -> None:
    """Of scores of 0 and a sink of log 3, the sink gets the weight of three positions."""
    query, key = torch.zeros(3, 2, 1), torch.zeros(3, 1, 1)
    value = torch.tensor([8.0, 12.0, 16.0])[:, None, None]
    sinks = torch.tensor([3.0, 1.0]).log()
    backend = ReferenceAttention(make_cache(4, 1, 1, 2, seed=1))
    output = backend.forward(AttentionInputs(0, query, key, value, 1.0, sinks=sinks), make_metadata([(0, 3)], 4, 2, 2))
    assert output[:, 0].flatten().tolist() == pytest.approx([2, 4, 6])
    assert output[:, 1].flatten().tolist() == pytest.approx([4, 20 / 3, 9])


def test_a_soft_cap_bounds_scores_after_their_scale() -> None:
    query, key = torch.tensor([0.0, 6.0])[:, None, None], torch.tensor([0.0, 1.0])[:, None, None]
    value = torch.tensor([0.0, 1.0])[:, None, None]
    backend = ReferenceAttention(make_cache(4, 1, 1, 2, seed=1))
    inputs = AttentionInputs(0, query, key, value, 0.5, softcap=2.0)
    output = backend.forward(inputs, make_metadata([(0, 2)], 4, 2, seed=2))
    weight = math.exp(2 * math.tanh(3 / 2))
    assert output.flatten().tolist() == pytest.approx([0, weight / (1 + weight)])


spans = st.tuples(
    st.integers(0, 40) | st.just(0),
    st.just(1) | st.integers(1, 20),
)


@pytest.mark.parametrize("name", sorted(set(BACKENDS) - {"reference"}))
@settings(max_examples=60, deadline=None)
@given(
    spans=st.lists(spans, min_size=1, max_size=9),
    block_size=st.sampled_from([1, 4, 16]),
    heads=st.sampled_from([(1, 1), (4, 2), (6, 1), (3, 3)]),
    head_size=st.sampled_from([16, 48]),
    window=st.none() | st.integers(1, 30),
    dtype=st.sampled_from([torch.float32, torch.int8]),
    prompt_length=st.none() | st.integers(0, 60),
    softcap=st.none() | st.sampled_from([0.5, 5.0]),
    with_sinks=st.booleans(),
    seed=st.integers(0, 100),
)
def test_backends_equal_the_reference(
    name: str,
    spans: list[tuple[int, int]],
    block_size: int,
    heads: tuple[int, int],
    head_size: int,
    window: int | None,
    dtype: torch.dtype,
    prompt_length: int | None,
    softcap: float | None,
    with_sinks: bool,
    seed: int,
) -> None:
    blocks = sum(-(-(before + count) // block_size) for before, count in spans) + 1
    metadata = make_metadata(spans, block_size, blocks, seed, prompt_length)
    generator = torch.Generator().manual_seed(seed)
    total = sum(count for _, count in spans)
    query, key, value = (
        torch.randn(total, count, head_size, generator=generator) for count in (heads[0], heads[1], heads[1])
    )
    caches = [make_cache(block_size, heads[1], head_size, blocks, seed, dtype) for _ in range(2)]
    sinks = torch.randn(heads[0], generator=generator) * 3 if with_sinks else None
    inputs = AttentionInputs(0, query, key, value, 0.4, window, softcap, sinks)
    expected, output = (
        select_backend(backend, CPU)(cache).forward(inputs, metadata)
        for backend, cache in zip(("reference", name), caches, strict=True)
    )
    # Over bytes the compiled kernels have queries and weights of 16 bits (`native/src/row_products.h`).
    tolerance = 1e-3 if (name, dtype) == ("native", torch.int8) else 1e-5
    torch.testing.assert_close(output, expected, rtol=tolerance, atol=tolerance)
    assert torch.equal(caches[0].keys[0], caches[1].keys[0])
    assert torch.equal(caches[0].values[0], caches[1].values[0])


def test_some_rows_at_a_time_have_the_same_scores(monkeypatch: pytest.MonkeyPatch) -> None:
    metadata = make_metadata([(9, 1), (0, 25)], 4, 11, seed=1)
    query, key, value = (torch.randn(26, heads, 16) for heads in (4, 2, 2))
    inputs = AttentionInputs(0, query, key, value, 1.0, None, 2.0, torch.randn(4))
    whole = select_backend("sdpa", CPU)(make_cache(4, 2, 16, 11, seed=1)).forward(inputs, metadata)
    monkeypatch.setattr(sdpa, "_MOST_SCORES", 350)
    some = select_backend("sdpa", CPU)(make_cache(4, 2, 16, 11, seed=1)).forward(inputs, metadata)
    torch.testing.assert_close(some, whole)


def test_windows_may_differ_between_layers() -> None:
    """The plan of a step is kept between layers, the mask is not."""
    metadata = make_metadata([(9, 1), (0, 5)], 4, 6, seed=1)
    query, key, value = (torch.randn(6, 2, 16) for _ in range(3))
    for name in BACKENDS:
        backend = select_backend(name, CPU)(make_cache(4, 2, 16, 6, seed=1))
        narrow, wide, again = (
            backend.forward(AttentionInputs(0, query, key, value, 1.0, window), metadata) for window in (2, None, 2)
        )
        assert not torch.allclose(narrow, wide)
        assert torch.equal(narrow, again)


def test_auto_is_a_backend_and_unknown_names_are_rejected() -> None:
    assert create_attention("auto", make_cache(4, 1, 16, 1, 0), CPU).name == "native"
    assert create_attention("auto", make_cache(4, 1, 8, 1, 0), CPU).name == "sdpa"  # heads of an odd size
    with pytest.raises(UnsupportedModel, match="there are: auto, "):
        select_backend("flash", CPU)


def test_the_compiled_kernels_reject_a_cache_outside_the_cpu() -> None:
    cache = KVCache(KVCacheShape(1, 1, 16, 4, torch.float32), 1, torch.device("meta"))
    with pytest.raises(UnsupportedModel, match="the cache is on meta"):
        create_attention("native", cache, CPU)
