"""Log probabilities of the model's raw distribution, as OpenAI and vLLM report them."""

from __future__ import annotations

from dataclasses import dataclass

from torch import Tensor

from inference_worker.engine_protocol import Candidate, PositionLogprobs
from inference_worker.sampling.candidates import best
from inference_worker.sampling.drawing import chunk_masses, weights_of

LEAST = -9999.0
"""OpenAI's word for "as good as impossible"; minus infinity has no JSON."""


@dataclass(frozen=True)
class RawScores:
    """The scores of W rows before anything is done to them."""

    scores: Tensor
    total: Tensor
    """[W, 1]: the logarithm of the sum of their exponentials."""

    @classmethod
    def of(cls, scores: Tensor) -> RawScores:
        """From [W, V], which is kept."""
        peak = scores.amax(dim=-1, keepdim=True)
        mass = chunk_masses(weights_of(scores - peak)).sum(dim=-1, keepdim=True)
        return cls(scores, peak + mass.log().float())

    def report(self, chosen: Tensor, alternatives: list[int]) -> list[PositionLogprobs]:
        """One entry a row: natural logarithms.

        Args:
            chosen: [W] token ids.
            alternatives: how many of the best to name, per row.
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
        """Of each row's chosen token ([W]): 1 if no other is likelier."""
        own = self.scores.gather(1, chosen[:, None])
        ranks: list[int] = ((self.scores > own).sum(dim=-1) + 1).tolist()
        return ranks

    def _logprobs(self, scores: Tensor) -> Tensor:
        return (scores - self.total).clamp_(min=LEAST)
