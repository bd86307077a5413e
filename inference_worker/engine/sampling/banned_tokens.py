"""Masks the logits of tokens that a request forbids by `bad_words` or does not list in `allowed_token_ids`.

A bad word of several tokens bans its last token after the tokens before it, as in vLLM.
"""

from __future__ import annotations

from collections.abc import Sequence as Rows
from dataclasses import dataclass

import torch
from torch import Tensor

from inference_worker.engine.sequence import Sequence
from router.messages import SamplingParams

NEVER = float("-inf")


@dataclass(frozen=True)
class AllowedTokens:
    """The rows of a batch whose requests set `allowed_token_ids`: row numbers, each with the allowed ids."""

    rows: list[tuple[int, Tensor]]

    @classmethod
    def of(cls, wanted: Rows[SamplingParams], device: torch.device) -> AllowedTokens | None:
        """Collect the rows of a batch that set `allowed_token_ids`; return `None` if no row does.

        `wanted` has the sampling parameters of each row.
        """
        rows = [
            (row, torch.tensor(p.allowed_token_ids, device=device))
            for row, p in enumerate(wanted)
            if p.allowed_token_ids is not None
        ]
        return cls(rows) if rows else None

    def apply(self, logits: Tensor) -> None:
        """Set the logits of tokens that these rows do not allow to -inf, in place; `logits` are the batch's [R, V]."""
        for row, ids in self.rows:
            kept = logits[row, ids]
            logits[row].fill_(NEVER)
            logits[row, ids] = kept


def ban_words(logits: Tensor, sequences: Rows[Sequence]) -> None:
    """Set the logits of tokens that would complete a bad word of their sequence to -inf, in place.

    `logits` are [R, V], one row for each of `sequences`.
    """
    cells = [
        (row, word[-1])
        for row, sequence in enumerate(sequences)
        for word in sequence.bad_words
        if _begun(word, sequence)
    ]
    if cells:
        rows, tokens = torch.tensor(cells, device=logits.device).T
        logits[rows, tokens] = NEVER


def _begun(word: list[int], sequence: Sequence) -> bool:
    """Return whether the last generated tokens are all of the word's but its last."""
    before, tokens = len(word) - 1, sequence.token_ids
    if not before:
        return True
    return before <= sequence.generated and tokens[-1] == word[-2] and tokens[-before:].tolist() == word[:-1]
