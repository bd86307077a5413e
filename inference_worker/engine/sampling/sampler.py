"""Samples each row's next token: adjusts logits, truncates the distribution, and draws by the inverse CDF.

A row's sample depends on its own logits and on (seed, choice, position) only, never on the batch, process or step.
"""

from __future__ import annotations

import torch
from torch import Tensor

from inference_worker.engine.sampling.banned_tokens import ban_words
from inference_worker.engine.sampling.candidates import top_token
from inference_worker.engine.sampling.forced_tokens import force_tokens
from inference_worker.engine.sampling.inverse_cdf import inverse_cdf
from inference_worker.engine.sampling.logprobs import RawScores
from inference_worker.engine.sampling.masks import Masks
from inference_worker.engine.sampling.parameters import RandomRows, SamplingParameters
from inference_worker.engine.sampling.penalties import mask_early_stops
from inference_worker.engine.sampling.token_counts import TokenCountCache
from inference_worker.engine.sampling.truncation import sample_truncated
from inference_worker.engine.sequence import Sequence
from inference_worker.engine_protocol import PositionLogprobs


class Sampler:
    """Samples next tokens from logits; caches the last batch's parameters, which rarely change, and token counts."""

    def __init__(self) -> None:
        self._parameters: SamplingParameters | None = None
        self._histories = TokenCountCache()
        self._masks = Masks()

    def sample(self, logits: Tensor, sequences: list[Sequence]) -> tuple[list[int], list[PositionLogprobs | None]]:
        """Sample the next token of each of R sequences.

        Args:
            logits: [R, V] float32, one row per sequence; overwritten.
            sequences: R sequences, which have the sampling parameters.

        Returns:
            R token ids, and for each row its log probabilities, `None` where the request wants none.
        """
        parameters = self._parameters_of(sequences, logits.device)
        raw = RawScores.of(logits[parameters.logprob_rows]) if parameters.logprob_rows else None
        self._adjust(logits, sequences, parameters)
        chosen = _sample(logits, sequences, parameters)
        logprobs: list[PositionLogprobs | None] = [None] * len(sequences)
        if raw is not None:
            reports = raw.report(chosen[parameters.logprob_rows], parameters.alternatives)
            for row, entry in zip(parameters.logprob_rows, reports, strict=True):
                logprobs[row] = entry
        return chosen.tolist(), logprobs

    def _parameters_of(self, sequences: list[Sequence], device: torch.device) -> SamplingParameters:
        row_sampling = [(sequence.sampling, sequence.choice) for sequence in sequences]
        if self._parameters is None or self._parameters.row_sampling != row_sampling:
            self._parameters = SamplingParameters.of(row_sampling, device)
        return self._parameters

    def _adjust(self, logits: Tensor, sequences: list[Sequence], parameters: SamplingParameters) -> None:
        """Apply bans, bias, penalties, grammars and ends of reasoning to the logits in place."""
        if parameters.allowed is not None:
            parameters.allowed.apply(logits)
        ban_words(logits, sequences)
        if parameters.bias is not None:
            parameters.bias.apply(logits)
        if parameters.min_tokens_rows:
            mask_early_stops(logits, sequences, parameters.min_tokens_rows)
        if parameters.penalties is not None:
            counts = self._histories.of([sequences[row] for row in parameters.penalties.row_numbers])
            parameters.penalties.apply(logits, counts)
        self._masks.apply(logits, sequences)
        force_tokens(logits, sequences)


def _sample(logits: Tensor, sequences: list[Sequence], parameters: SamplingParameters) -> Tensor:
    """Sample all rows: [R, V], overwritten, to [R] token ids."""
    chosen = top_token(logits) if parameters.greedy else torch.empty_like(logits[:, 0], dtype=torch.int64)
    for random_rows in parameters.random_rows:
        numbers = random_rows.numbers(sequences)
        if random_rows.rows is None:
            return _sample_random(logits, numbers, random_rows)
        chosen[random_rows.rows] = _sample_random(logits[random_rows.rows], numbers, random_rows)
    return chosen


def _sample_random(scores: Tensor, numbers: Tensor, random_rows: RandomRows) -> Tensor:
    """Sample one group of rows at random: [D, V], overwritten, to [D] token ids."""
    # The largest score becomes 0 first, so no temperature can overflow it.
    scores.sub_(scores.amax(dim=-1, keepdim=True)).div_(random_rows.temperature)
    if random_rows.truncation is None:
        return inverse_cdf(scores, numbers)
    return sample_truncated(scores, numbers, random_rows.truncation)
