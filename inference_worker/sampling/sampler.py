"""Picks the next token of each row: adjust the scores, cut the distribution, draw by its inverse CDF.

The draw of a row depends on its own scores and on (seed, choice, position) only: not on the batch, the process or the
step. Knows sequences' parameters and tokens, not models or blocks.
"""

from __future__ import annotations

import torch
from torch import Tensor

from inference_worker.engine_protocol import PositionLogprobs
from inference_worker.sampling.logprobs import raw_logprobs, report
from inference_worker.sampling.parameters import Draws, SamplingParameters
from inference_worker.sampling.penalties import ban_early_stops
from inference_worker.sampling.philox import uniform
from inference_worker.sampling.truncation import apply_min_p, apply_top_k_top_p
from inference_worker.sequence import Sequence


class Sampler:
    """Remembers the parameters of the last composition of rows: it rarely changes from step to step."""

    def __init__(self) -> None:
        self._parameters: SamplingParameters | None = None

    def sample(self, logits: Tensor, sequences: list[Sequence]) -> tuple[list[int], list[PositionLogprobs | None]]:
        """The next token of each of `sequences`, and its log probabilities where wanted.

        Args:
            logits: [R, V] float32, one row a sequence; overwritten.
            sequences: R of them.
        """
        parameters = self._parameters_of(sequences, logits.device)
        raw = raw_logprobs(logits[parameters.reported]) if parameters.reported else None
        _adjust(logits, parameters)
        chosen = _choose(logits, parameters.draws)
        logprobs: list[PositionLogprobs | None] = [None] * len(sequences)
        if raw is not None:
            reports = report(raw, chosen[parameters.reported], parameters.alternatives)
            for row, entry in zip(parameters.reported, reports, strict=True):
                logprobs[row] = entry
        return chosen.tolist(), logprobs

    def _parameters_of(self, sequences: list[Sequence], device: torch.device) -> SamplingParameters:
        if self._parameters is None or self._parameters.sequences != sequences:
            self._parameters = SamplingParameters.of(sequences, device)
        return self._parameters


def _adjust(logits: Tensor, parameters: SamplingParameters) -> None:
    """Bias, bans and penalties, in place."""
    if parameters.bias is not None:
        parameters.bias.apply(logits)
    if parameters.early:
        ban_early_stops(logits, parameters.early)
    if parameters.penalties is not None:
        parameters.penalties.apply(logits)


def _choose(logits: Tensor, draws: Draws | None) -> Tensor:
    """[R, V] to [R] token ids."""
    if draws is None:
        return logits.argmax(dim=-1)
    if draws.rows is None:
        return _draw(logits, draws)
    chosen = logits.argmax(dim=-1)
    chosen[draws.rows] = _draw(logits[draws.rows], draws)
    return chosen


def _draw(logits: Tensor, draws: Draws) -> Tensor:
    """[D, V] to [D] token ids."""
    # The largest score becomes 0 first, so no temperature can overflow it.
    logits = (logits - logits.amax(dim=-1, keepdim=True)) / draws.temperature
    if draws.min_p is not None:
        logits = apply_min_p(logits, draws.min_p)
    if draws.top_k is not None and draws.top_p is not None:
        logits = apply_top_k_top_p(logits, draws.top_k, draws.top_p)
    positions = torch.tensor([sequence.generated for sequence in draws.sequences], device=logits.device)
    return inverse_cdf(logits, uniform(draws.seeds, draws.choices, positions))


def inverse_cdf(logits: Tensor, numbers: Tensor) -> Tensor:
    """The token at which the cumulated probability passes a number in [0, 1).

    In float64: sums of 100 000 float32 probabilities would be off by more than the rarest token's share.

    Args:
        logits: [D, V]; tokens at -inf are never taken.
        numbers: [D] float64.

    Returns:
        [D] token ids.
    """
    # Taking off the maximum again: exp of the largest is 1 whatever was done to the scores.
    cumulated = (logits.double() - logits.amax(dim=-1, keepdim=True)).exp_().cumsum(dim=-1)
    total = cumulated[:, -1:]
    # Rounding could lift the number to the total, where no token is left.
    point = torch.minimum(numbers[:, None] * total, torch.nextafter(total, torch.zeros_like(total)))
    found = torch.searchsorted(cumulated, point, right=True)[:, 0]
    return found.clamp_(max=logits.shape[1] - 1)
