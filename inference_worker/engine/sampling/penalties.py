"""Adjusts logits before sampling: `logit_bias`, `min_tokens`, and repetition, frequency and presence penalties.

Formulas and order as in vLLM, so that an operator who changes engines gets the same answers: bias and bans, then the
repetition penalty of Keskar et al. 2019 (CTRL, section 4.1) over prompt and generated tokens, then OpenAI's frequency
and presence penalties over generated tokens. Each stage is `None` in a step in which no row needs it.
"""

from __future__ import annotations

from collections.abc import Sequence as Rows
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from inference_worker.engine.sampling.token_counts import TokenCounts
from inference_worker.engine.sequence import Sequence
from router.messages import SamplingParams


@dataclass(frozen=True)
class Bias:
    """`logit_bias` of all rows: add `values[i]` at (`rows[i]`, `token_ids[i]`)."""

    rows: Tensor
    token_ids: Tensor
    values: Tensor

    @classmethod
    def of(cls, wanted: Rows[SamplingParams], device: torch.device) -> Bias | None:
        """Collect the `logit_bias` of the rows of a batch that set one; return `None` if no row does.

        `wanted` has the sampling parameters of each row.
        """
        cells = [(row, token, value) for row, p in enumerate(wanted) for token, value in p.logit_bias.items()]
        if not cells:
            return None
        rows, tokens, values = zip(*cells, strict=True)
        return cls(
            torch.tensor(rows, device=device),
            torch.tensor(tokens, device=device),
            torch.tensor(values, device=device, dtype=torch.float32),
        )

    def apply(self, logits: Tensor) -> None:
        """Add the requests' `logit_bias` to the batch's `logits`, [R, V], in place."""
        logits.index_put_((self.rows, self.token_ids), self.values, accumulate=True)


def mask_early_stops(logits: Tensor, sequences: Rows[Sequence], min_tokens_rows: Rows[int]) -> None:
    """Set the logits of stop tokens to -inf, in place, in rows whose sequence has fewer tokens than its `min_tokens`.

    Rows with a grammar are left out: the grammar decides where they may stop (`sampling/masks.py`).

    Args:
        logits: [R, V].
        sequences: R sequences.
        min_tokens_rows: rows that set `min_tokens`.
    """
    cells = [
        (row, token)
        for row in min_tokens_rows
        if sequences[row].generated < sequences[row].sampling.min_tokens and sequences[row].active_matcher is None
        for token in sequences[row].stop_ids
        if 0 <= token < logits.shape[1]
    ]
    if cells:
        rows, tokens = torch.tensor(cells, device=logits.device).T
        logits[rows, tokens] = float("-inf")


@dataclass(frozen=True)
class Penalties:
    """The P rows of a batch that set any penalty.

    Attributes:
        row_numbers: [P] indexes of the rows in the batch.
        columns: [3, P] repetition, frequency and presence penalty.
    """

    row_numbers: list[int]
    columns: Tensor

    @classmethod
    def of(cls, wanted: Rows[SamplingParams], device: torch.device) -> Penalties | None:
        """Collect the penalties of the rows of a batch that set any; return `None` if no row does.

        `wanted` has the sampling parameters of each row.
        """
        row_numbers = [row for row, p in enumerate(wanted) if is_penalised(p)]
        if not row_numbers:
            return None
        columns = [
            (wanted[row].repetition_penalty, wanted[row].frequency_penalty, wanted[row].presence_penalty)
            for row in row_numbers
        ]
        return cls(row_numbers, torch.tensor(columns, device=device).T)

    def apply(self, logits: Tensor, counts: Rows[TokenCounts]) -> None:
        """Apply the penalties to the logits of tokens that the P penalised sequences contain, in place.

        Args:
            logits: [R, V] of the batch.
            counts: the token counts of the P sequences.
        """
        lengths = [len(one.token_ids) for one in counts]
        tokens, owners, generated = (
            torch.from_numpy(part).to(logits.device)
            for part in (
                np.concatenate([one.token_ids for one in counts]),
                np.repeat(np.arange(len(counts)), lengths),
                np.concatenate([one.generated for one in counts]),
            )
        )
        rows = torch.tensor(self.row_numbers, device=logits.device)[owners]
        repetition, frequency, presence = self.columns[:, owners]
        scores = logits[rows, tokens]
        scores = torch.where(scores > 0, scores / repetition, scores * repetition)
        scores -= frequency * generated + presence * (generated > 0)
        logits[rows, tokens] = scores


def is_penalised(sampling: SamplingParams) -> bool:
    """Return whether a request's sampling parameters set a repetition, frequency or presence penalty."""
    return sampling.repetition_penalty != 1.0 or sampling.frequency_penalty != 0.0 or sampling.presence_penalty != 0.0
