"""Forces the tokens that end the reasoning of sequences whose budget of reasoning tokens is used up."""

from __future__ import annotations

from collections.abc import Sequence as Rows

import torch
from torch import Tensor

from inference_worker.engine.sequence import Sequence


def force_tokens(logits: Tensor, sequences: Rows[Sequence]) -> None:
    """Set all logits of rows whose next token is forced to -inf, in place, except those of the forced tokens.

    Bans, biases and penalties do not apply to forced tokens. `logits` are [R, V], one row for each of `sequences`.
    """
    cells = [
        (row, token)
        for row, sequence in enumerate(sequences)
        if sequence.reasoning is not None and (token := sequence.reasoning.forced) is not None
    ]
    if cells:
        rows, tokens = torch.tensor(cells, device=logits.device).T
        logits[rows] = float("-inf")
        logits[rows, tokens] = 0.0
