"""The sampling parameters of a batch's rows as tensors. Built when the rows change, not every step.

What no row asks for is `None`, and its stage is skipped. Knows no logits.
"""

from __future__ import annotations

from collections.abc import Sequence as Rows
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from inference_worker.sampling.penalties import Bias, Penalties
from inference_worker.sequence import Sequence

GREEDY_BELOW = 1e-5
"""A lower temperature is greedy: dividing by it would overflow float32 (vLLM draws the same line)."""


@dataclass(frozen=True)
class Draws:
    """The D rows that are drawn at random; the others are greedy.

    Attributes:
        rows: [D] their numbers; `None`: all rows.
        sequences: the rows' sequences.
        seeds, choices: [D] int64.
        temperature: [D, 1].
        min_p: [D]. `None`: nobody uses it.
        top_k, top_p: [D]. `None`: nobody uses either.
    """

    rows: Tensor | None
    sequences: list[Sequence]
    seeds: Tensor
    choices: Tensor
    temperature: Tensor
    min_p: Tensor | None
    top_k: Tensor | None
    top_p: Tensor | None

    @classmethod
    def of(cls, sequences: Rows[Sequence], device: torch.device) -> Draws | None:
        """Collect them; `None` if all rows are greedy."""
        rows = [row for row, s in enumerate(sequences) if s.sampling.temperature >= GREEDY_BELOW]
        if not rows:
            return None
        chosen = [sequences[row] for row in rows]
        wanted = [s.sampling for s in chosen]
        seeds = np.array([p.seed & 0xFFFFFFFFFFFFFFFF for p in wanted], dtype=np.uint64).view(np.int64)
        truncated = any(p.top_k > 0 or p.top_p < 1 for p in wanted)
        return cls(
            rows=None if len(rows) == len(sequences) else torch.tensor(rows, device=device),
            sequences=chosen,
            seeds=torch.from_numpy(seeds).to(device),
            choices=torch.tensor([s.choice for s in chosen], device=device),
            temperature=torch.tensor([[p.temperature] for p in wanted], device=device),
            min_p=torch.tensor([p.min_p for p in wanted], device=device) if any(p.min_p > 0 for p in wanted) else None,
            top_k=torch.tensor([p.top_k for p in wanted], device=device) if truncated else None,
            top_p=torch.tensor([p.top_p for p in wanted], device=device, dtype=torch.float64) if truncated else None,
        )


@dataclass(frozen=True)
class SamplingParameters:
    """Everything about one composition of rows.

    Attributes:
        sequences: the rows, in order.
        early: (row, sequence) of those that set `min_tokens`.
        reported: rows whose log probabilities are wanted, and how many alternatives each.
    """

    sequences: list[Sequence]
    draws: Draws | None
    bias: Bias | None
    penalties: Penalties | None
    early: list[tuple[int, Sequence]]
    reported: list[int]
    alternatives: list[int]

    @classmethod
    def of(cls, sequences: list[Sequence], device: torch.device) -> SamplingParameters:
        """Collect what these rows ask for."""
        wanted = [(row, s.sampling.logprobs) for row, s in enumerate(sequences) if s.sampling.logprobs is not None]
        return cls(
            sequences=sequences,
            draws=Draws.of(sequences, device),
            bias=Bias.of(sequences, device),
            penalties=Penalties.of(sequences, device),
            early=[(row, s) for row, s in enumerate(sequences) if s.sampling.min_tokens > 0],
            reported=[row for row, _ in wanted],
            alternatives=[count for _, count in wanted],
        )
