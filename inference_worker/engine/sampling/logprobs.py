"""Computes the log probabilities that requests ask for, from the model's raw distribution, as OpenAI and vLLM do."""

from __future__ import annotations

from dataclasses import dataclass

from torch import Tensor

from inference_worker.engine.sampling.candidates import best
from inference_worker.engine.sampling.inverse_cdf import chunk_masses, exponentials
from inference_worker.engine_protocol import Candidate, PositionLogprobs

MIN_LOGPROB = -9999.0
"""OpenAI's log probability of a practically impossible token; minus infinity has no JSON."""


@dataclass(frozen=True)
class RawScores:
    """The model's raw scores of W rows, before penalties, bias and truncation."""

    scores: Tensor
    total: Tensor
    """Log-sum-exp of each row, [W, 1]."""

    @classmethod
    def of(cls, scores: Tensor) -> RawScores:
        """Create the raw scores of W rows from the model's [W, V] logits, which are kept by reference, not copied."""
        peak = scores.amax(dim=-1, keepdim=True)
        mass = chunk_masses(exponentials(scores - peak)).sum(dim=-1, keepdim=True)
        return cls(scores, peak + mass.log().float())

    def report(self, chosen: Tensor, alternatives: list[int]) -> list[PositionLogprobs]:
        """Return, for each of W rows, the natural log probabilities of its chosen token and of its likeliest tokens.

        Args:
            chosen: [W] token ids.
            alternatives: number of likeliest tokens to report, per row.
        """
        scores, leaders = best(self.scores, max(1, *alternatives))
        own = self._logprobs(self.scores.gather(1, chosen[:, None]))[:, 0].tolist()
        best_of_row = zip(leaders.tolist(), self._logprobs(scores).tolist(), strict=True)
        return [
            PositionLogprobs(
                Candidate(token, logprob),
                [Candidate(*candidate) for candidate in zip(ids[:count], values[:count], strict=True)],
            )
            for token, logprob, (ids, values), count in zip(
                chosen.tolist(), own, best_of_row, alternatives, strict=True
            )
        ]

    def ranks(self, chosen: Tensor) -> list[int]:
        """Return the rank of each row's chosen token ([W] ids) among the row's scores; 1 is the likeliest token."""
        own = self.scores.gather(1, chosen[:, None])
        ranks: list[int] = ((self.scores > own).sum(dim=-1) + 1).tolist()
        return ranks

    def _logprobs(self, scores: Tensor) -> Tensor:
        return (scores - self.total).clamp_(min=MIN_LOGPROB)
