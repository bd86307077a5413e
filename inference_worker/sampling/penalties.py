"""Changes to the scores before a token is picked: bias, tokens not allowed yet, and penalties for repetition.

Formulas and order as in vLLM, so that an operator who changes engines sees the same answers: bias and bans, then the
repetition penalty of Keskar et al. 2019 (CTRL, section 4.1) over prompt and generated tokens, then OpenAI's frequency
and presence penalties over generated tokens. Each stage is `None` in a step in which no row needs it.
"""

from __future__ import annotations

from collections.abc import Sequence as Rows
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from inference_worker.sequence import Sequence


@dataclass(frozen=True)
class Bias:
    """`logit_bias` of all rows: add `values[i]` at (`rows[i]`, `token_ids[i]`)."""

    rows: Tensor
    token_ids: Tensor
    values: Tensor

    @classmethod
    def of(cls, sequences: Rows[Sequence], device: torch.device) -> Bias | None:
        """Collect it; `None` if there is none."""
        cells = [
            (row, token, value)
            for row, sequence in enumerate(sequences)
            for token, value in sequence.sampling.logit_bias.items()
        ]
        if not cells:
            return None
        rows, tokens, values = zip(*cells, strict=True)
        return cls(
            torch.tensor(rows, device=device),
            torch.tensor(tokens, device=device),
            torch.tensor(values, device=device, dtype=torch.float32),
        )

    def apply(self, logits: Tensor) -> None:
        """Add it to [R, V], in place."""
        logits.index_put_((self.rows, self.token_ids), self.values, accumulate=True)


def ban_early_stops(logits: Tensor, candidates: Rows[tuple[int, Sequence]]) -> None:
    """Make stop tokens impossible in the rows that are below their `min_tokens`, in place.

    Args:
        logits: [R, V].
        candidates: (row, sequence) of those that set `min_tokens`.
    """
    cells = [
        (row, token)
        for row, sequence in candidates
        if sequence.generated < sequence.sampling.min_tokens
        for token in sequence.stop_ids
        if 0 <= token < logits.shape[1]
    ]
    if cells:
        rows, tokens = torch.tensor(cells, device=logits.device).T
        logits[rows, tokens] = float("-inf")


@dataclass(frozen=True)
class Penalties:
    """The P rows that have any penalty: their numbers as [P, 1]."""

    rows: Tensor
    sequences: list[Sequence]
    repetition: Tensor
    frequency: Tensor
    presence: Tensor

    @classmethod
    def of(cls, sequences: Rows[Sequence], device: torch.device) -> Penalties | None:
        """Collect them; `None` if there are none."""
        rows = [row for row, sequence in enumerate(sequences) if _penalised(sequence)]
        if not rows:
            return None
        chosen = [sequences[row] for row in rows]
        columns = torch.tensor(
            [
                (s.sampling.repetition_penalty, s.sampling.frequency_penalty, s.sampling.presence_penalty)
                for s in chosen
            ],
            device=device,
        )
        return cls(torch.tensor(rows, device=device), chosen, columns[:, 0:1], columns[:, 1:2], columns[:, 2:3])

    def apply(self, logits: Tensor) -> None:
        """Penalise [R, V] in place."""
        scores = logits[self.rows]
        generated = _counts([s.generated_ids().tobytes() for s in self.sequences], scores)
        known = _counts([s.token_ids.tobytes() for s in self.sequences], scores)
        repeated = torch.where(scores > 0, scores / self.repetition, scores * self.repetition)
        scores = torch.where(known > 0, repeated, scores)
        scores -= self.frequency * generated + self.presence * (generated > 0)
        logits[self.rows] = scores


def _penalised(sequence: Sequence) -> bool:
    sampling = sequence.sampling
    return sampling.repetition_penalty != 1.0 or sampling.frequency_penalty != 0.0 or sampling.presence_penalty != 0.0


def _counts(token_ids: list[bytes], like: Tensor) -> Tensor:
    """How often each token occurs: P packed lists of int64 to a tensor shaped like `like`, [P, V]."""
    tokens = np.frombuffer(b"".join(token_ids), dtype=np.int64)
    rows = np.repeat(np.arange(len(token_ids)), [len(ids) // 8 for ids in token_ids])
    cells = torch.from_numpy(rows * like.shape[1] + tokens).to(like.device)
    counts = torch.zeros_like(like)
    counts.view(-1).index_add_(0, cells, torch.ones_like(cells, dtype=like.dtype))
    return counts
