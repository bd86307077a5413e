"""Tests that attention with soft caps and sinks, too, depends neither on the chunks of a prompt nor on the batch."""

from __future__ import annotations

from dataclasses import replace

import pytest
import torch
from torch import Tensor

from inference_worker.engine.attention_backend import AttentionInputs
from inference_worker.engine.native.library import AttentionBits, Kernels
from tests.inference_worker.engine.attention.test_attention import make_cache, make_metadata

LENGTHS = (170, 66)
PROMPT = 120
HEADS, KV_HEADS, SIZE = 6, 2, 32


def rows_of(states: list[Tensor], spans: list[tuple[int, int]]) -> Tensor:
    return torch.cat([each[before : before + count] for each, (before, count) in zip(states, spans, strict=True)])


@pytest.mark.parametrize("bits", [32, 8])
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.int8])
@pytest.mark.parametrize("window", [None, 30])
@pytest.mark.parametrize(("softcap", "with_sinks"), [(2.0, False), (None, True), (2.0, True)])
def test_results_depend_on_positions_alone(
    instructions: str,
    bits: AttentionBits,
    dtype: torch.dtype,
    window: int | None,
    softcap: float | None,
    with_sinks: bool,
) -> None:
    kernels = Kernels(2, instructions)
    generator = torch.Generator().manual_seed(4)
    queries, keys, values = (
        [torch.randn(length, heads, SIZE, generator=generator) for length in LENGTHS]
        for heads in (HEADS, KV_HEADS, KV_HEADS)
    )
    sinks = torch.randn(HEADS, generator=generator) * 4 if with_sinks else None

    def computed(chunk: int) -> list[Tensor]:
        """Compute the sequences together, `chunk` tokens of each at a time."""
        whole = make_metadata([(0, length) for length in LENGTHS], 16, 40, seed=2)
        slots = list(whole.slot_mapping.split(LENGTHS))
        cache = make_cache(16, KV_HEADS, SIZE, 40, seed=1, dtype=dtype)
        parts: list[list[Tensor]] = [[] for _ in LENGTHS]
        for start in range(0, max(LENGTHS), chunk):
            live = [i for i, length in enumerate(LENGTHS) if length > start]
            spans = [(start, min(chunk, LENGTHS[i] - start)) for i in live]
            query, key, value = (rows_of([side[i] for i in live], spans) for side in (queries, keys, values))
            metadata = replace(
                make_metadata(spans, 16, 40, seed=2, prompt_length=PROMPT),
                block_tables=whole.block_tables[live],
                slot_mapping=rows_of([slots[i] for i in live], spans),
            )
            inputs = AttentionInputs(0, query, key, value, 0.4, window, softcap, sinks)
            found = kernels.attention(cache, inputs, metadata, bits=bits)
            for i, rows in zip(live, found.split([count for _, count in spans]), strict=True):
                parts[i].append(rows)
        return [torch.cat(each) for each in parts]

    at_once = computed(max(LENGTHS))
    for chunk in (64, 37):
        for rows, expected in zip(computed(chunk), at_once, strict=True):
            assert torch.equal(rows, expected)
