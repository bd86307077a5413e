"""Log probabilities of the model's raw distribution, as OpenAI and vLLM report them."""

from __future__ import annotations

from torch import Tensor

from inference_worker.engine_protocol import Candidate, PositionLogprobs

LEAST = -9999.0
"""OpenAI's word for "as good as impossible"; minus infinity has no JSON."""


def raw_logprobs(logits: Tensor) -> Tensor:
    """[R, V] scores, before anything was done to them, to [R, V] natural-log probabilities."""
    return logits.float().log_softmax(dim=-1).clamp_(min=LEAST)


def report(logprobs: Tensor, chosen: Tensor, alternatives: list[int]) -> list[PositionLogprobs]:
    """One entry a row.

    Args:
        logprobs: [R, V] from `raw_logprobs`.
        chosen: [R] token ids.
        alternatives: how many of the best to name, per row.
    """
    most = min(max(alternatives), logprobs.shape[1])
    best = logprobs.topk(most, dim=-1)
    own = logprobs.gather(1, chosen[:, None])[:, 0].tolist()
    rows = zip(chosen.tolist(), own, best.indices.tolist(), best.values.tolist(), alternatives, strict=True)
    return [
        PositionLogprobs(
            Candidate(token, logprob),
            [Candidate(*candidate) for candidate in zip(ids[:count], values[:count], strict=True)],
        )
        for token, logprob, ids, values, count in rows
    ]
