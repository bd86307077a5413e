"""Collects the sampling parameters of a batch's rows in tensors, rebuilt only when rows or their parameters change.

A feature that no row uses is `None`, and its stage is skipped.
"""

from __future__ import annotations

from collections.abc import Sequence as Rows
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from inference_worker.engine.sampling.banned_tokens import AllowedTokens
from inference_worker.engine.sampling.penalties import Bias, Penalties
from inference_worker.engine.sampling.philox import Words, uniform
from inference_worker.engine.sampling.truncation import Truncation
from inference_worker.engine.sequence import Sequence
from router.messages import SamplingParams

GREEDY_BELOW = 1e-5
"""Temperature below which sampling is greedy: dividing by it would overflow float32 (vLLM uses the same limit)."""

RowSampling = tuple[SamplingParams, int]
"""A row's sampling parameters and the index of its choice."""


@dataclass(frozen=True)
class RandomRows:
    """Sampling parameters of D rows of a batch that are sampled at random, not greedily.

    Attributes:
        row_numbers: [D] indexes of the rows in the batch.
        rows: [D] the same indexes on the device; `None`: all rows.
        seeds, choices: [D].
        temperature: [D, 1].
        truncation: top_k, min_p and top_p; `None`: these rows are sampled from the whole vocabulary.
    """

    row_numbers: list[int]
    rows: Tensor | None
    seeds: Words
    choices: Words
    temperature: Tensor
    truncation: Truncation | None

    @classmethod
    def of(
        cls, row_sampling: Rows[RowSampling], row_numbers: list[int], device: torch.device, *, truncated: bool
    ) -> RandomRows | None:
        """Collect the sampling parameters of `row_numbers`, a batch's rows sampled at random; `None` if there are none.

        `row_sampling` has the parameters of all rows. With `truncated` top_k, min_p and top_p are collected too.
        """
        if not row_numbers:
            return None
        wanted = [row_sampling[row][0] for row in row_numbers]
        return cls(
            row_numbers=row_numbers,
            rows=None if len(row_numbers) == len(row_sampling) else torch.tensor(row_numbers, device=device),
            seeds=np.array([p.seed & 0xFFFFFFFFFFFFFFFF for p in wanted], np.uint64),
            choices=np.array([row_sampling[row][1] for row in row_numbers], np.uint64),
            temperature=torch.tensor([p.temperature for p in wanted], device=device)[:, None],
            truncation=Truncation.of(
                [p.top_k for p in wanted], [p.min_p for p in wanted], [p.top_p for p in wanted], device
            )
            if truncated
            else None,
        )

    def numbers(self, sequences: Rows[Sequence]) -> Tensor:
        """Return the random number with which each of these D rows samples its next token, [D] float64 in [0, 1).

        `sequences` are those of all rows of the batch; the number of tokens generated so far selects each number.
        """
        positions = np.array([sequences[row].generated for row in self.row_numbers], np.uint64)
        return torch.from_numpy(uniform(self.seeds, self.choices, positions)).to(self.temperature.device)


@dataclass(frozen=True)
class SamplingParameters:
    """The sampling parameters of all rows of a batch.

    Attributes:
        row_sampling: each row's parameters, from which this was built.
        greedy: whether any row is sampled greedily.
        random_rows: the rows sampled from the whole vocabulary, and those sampled from a part of it.
        min_tokens_rows: rows that set `min_tokens`.
        logprob_rows: rows that want log probabilities.
        alternatives: number of best tokens to report for each of these rows.
    """

    row_sampling: list[RowSampling]
    greedy: bool
    random_rows: list[RandomRows]
    allowed: AllowedTokens | None
    bias: Bias | None
    penalties: Penalties | None
    min_tokens_rows: list[int]
    logprob_rows: list[int]
    alternatives: list[int]

    @classmethod
    def of(cls, row_sampling: list[RowSampling], device: torch.device) -> SamplingParameters:
        """Collect the sampling parameters of a batch's rows in tensors on `device`; `None` for an unused feature."""
        wanted = [sampling for sampling, _ in row_sampling]
        sampled = [row for row, p in enumerate(wanted) if p.temperature >= GREEDY_BELOW]
        truncated = [row for row in sampled if is_truncated(wanted[row])]
        whole = sorted(set(sampled).difference(truncated))
        logprob_rows = [row for row, p in enumerate(wanted) if p.logprobs is not None]
        random_rows = (
            RandomRows.of(row_sampling, whole, device, truncated=False),
            RandomRows.of(row_sampling, truncated, device, truncated=True),
        )
        return cls(
            row_sampling=row_sampling,
            greedy=len(sampled) < len(row_sampling),
            random_rows=[group for group in random_rows if group is not None],
            allowed=AllowedTokens.of(wanted, device),
            bias=Bias.of(wanted, device),
            penalties=Penalties.of(wanted, device),
            min_tokens_rows=[row for row, p in enumerate(wanted) if p.min_tokens > 0],
            logprob_rows=logprob_rows,
            alternatives=[wanted[row].logprobs or 0 for row in logprob_rows],
        )


def is_truncated(sampling: SamplingParams) -> bool:
    """Return whether a request's sampling parameters exclude unlikely tokens, by top_k, top_p or min_p."""
    return sampling.top_k > 0 or sampling.top_p < 1 or sampling.min_p > 0
