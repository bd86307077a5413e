"""Tokens that must not be drawn: bad words, and all that are not among the allowed ones.

A bad word of several tokens bans its last one after the others, as vLLM does. Knows scores and sequences' tokens.
"""

from __future__ import annotations

from collections.abc import Sequence as Rows
from dataclasses import dataclass

import torch
from torch import Tensor

from inference_worker.sequence import Sequence
from router.messages import SamplingParams

NEVER = float("-inf")


@dataclass(frozen=True)
class Allowed:
    """Of each row that sets `allowed_token_ids` its number and these ids."""

    rows: list[tuple[int, Tensor]]

    @classmethod
    def of(cls, wanted: Rows[SamplingParams], device: torch.device) -> Allowed | None:
        """Collect them; `None` if there are none."""
        rows = [
            (row, torch.tensor(p.allowed_token_ids, device=device))
            for row, p in enumerate(wanted)
            if p.allowed_token_ids is not None
        ]
        return cls(rows) if rows else None

    def apply(self, logits: Tensor) -> None:
        """Make all others impossible in [R, V], in place."""
        for row, ids in self.rows:
            kept = logits[row, ids]
            logits[row].fill_(NEVER)
            logits[row, ids] = kept


def ban_words(logits: Tensor, sequences: Rows[Sequence]) -> None:
    """Make tokens impossible that would complete a bad word, in [R, V] in place; `sequences` are R."""
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
    """The last generated tokens are all of the word but its last."""
    before, tokens = len(word) - 1, sequence.token_ids
    if not before:
        return True
    return before <= sequence.generated and tokens[-1] == word[-2] and tokens[-before:].tolist() == word[:-1]
