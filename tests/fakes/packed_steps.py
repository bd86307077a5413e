"""Drives a `CausalLM` over packed sequences as the model runner does, chunk by chunk, on the reference attention."""

from __future__ import annotations

from typing import cast

import torch
from torch import Tensor

from inference_worker.engine.attention.reference import ReferenceAttention
from inference_worker.engine.attention_backend import AttentionBackend, AttentionMetadata, StepAttention
from inference_worker.engine.causal_lm import CausalLM
from inference_worker.engine.kv_cache import KVCache, KVCacheShape

BLOCK_SIZE = 4
LENGTHS = (13, 1, 40, 22)


def random_sequences(vocab_size: int) -> list[list[int]]:
    """Sequences of very different lengths, special ids left out."""
    generator = torch.Generator().manual_seed(3)
    return [torch.randint(3, vocab_size, (n,), generator=generator).tolist() for n in LENGTHS]


@torch.inference_mode()
def packed_logits(
    model: CausalLM,
    sequences: list[list[int]],
    chunks: list[int],
    cache_dtype: torch.dtype | None = None,
    prompt_length: int | None = None,
) -> list[Tensor]:
    """Every position's logits; step i computes up to `chunks[i % len(chunks)]` tokens of each sequence.

    Tokens from `prompt_length` on were generated; None: all are of prompts.
    """
    cache = _cache(model, sequences, cache_dtype or cast(torch.dtype, getattr(model, "dtype", torch.float32)))
    tables = torch.randperm(cache.num_blocks).view(len(sequences), -1)
    backend = ReferenceAttention(cache)
    computed = [0] * len(sequences)
    logits: list[list[Tensor]] = [[] for _ in sequences]
    step = 0
    while any(done < len(ids) for done, ids in zip(computed, sequences, strict=True)):
        chunk = chunks[step % len(chunks)]
        # The first sequence runs a step ahead of the others: a step mixes prompts and continuations.
        part = [
            range(done, min(done + (chunk if step or not s else 1), len(ids)))
            for s, (done, ids) in enumerate(zip(computed, sequences, strict=True))
        ]
        live = [s for s, span in enumerate(part) if span]
        hidden = _step(model, backend, tables, sequences, part, live, prompt_length=prompt_length)
        for s, rows in zip(live, torch.split(hidden, [len(part[s]) for s in live]), strict=True):
            logits[s].append(model.logits(rows))
            computed[s] = part[s].stop
        step += 1
    return [torch.cat(rows) for rows in logits]


@torch.inference_mode()
def first_step(model: CausalLM, sequences: list[list[int]], read: list[int] | None = None) -> tuple[Tensor, KVCache]:
    """Sequences in one step: states [T, hidden size], and the cache; `read`: how many last rows of each are read."""
    cache = _cache(model, sequences, torch.float32)
    tables = torch.arange(cache.num_blocks).view(len(sequences), -1)
    part = [range(len(ids)) for ids in sequences]
    return _step(model, ReferenceAttention(cache), tables, sequences, part, list(range(len(sequences))), read), cache


def _cache(model: CausalLM, sequences: list[list[int]], dtype: torch.dtype) -> KVCache:
    """Zeros, with as many blocks for each sequence as the longest one needs."""
    shape, per_sequence = model.shape, -(-max(map(len, sequences)) // BLOCK_SIZE)
    form = KVCacheShape(shape.layers, shape.kv_heads, shape.head_size, BLOCK_SIZE, dtype)
    return KVCache(form, per_sequence * len(sequences), torch.device("cpu"))


def _step(
    model: CausalLM,
    backend: AttentionBackend,
    tables: Tensor,
    sequences: list[list[int]],
    part: list[range],
    live: list[int],
    read: list[int] | None = None,
    prompt_length: int | None = None,
) -> Tensor:
    ids = torch.tensor([sequences[s][p] for s in live for p in part[s]])
    positions = torch.tensor([p for s in live for p in part[s]])
    slots = torch.tensor([int(tables[s, p // BLOCK_SIZE]) * BLOCK_SIZE + p % BLOCK_SIZE for s in live for p in part[s]])
    counts = torch.tensor([0] + [len(part[s]) for s in live])
    lengths = torch.tensor([part[s].stop for s in live])
    rows = counts.cumsum(0)
    read_from = None if read is None else rows[1:] - torch.tensor(read)
    prompts = None if prompt_length is None else torch.full_like(lengths, prompt_length)
    metadata = AttentionMetadata(
        rows, lengths, tables[live], slots, int(counts.max()), int(lengths.max()), read_from, prompts
    )
    return model.forward(ids, positions, StepAttention(backend, metadata))
