"""Masks the logits of tokens that the grammar of a sequence's structured output does not allow next.

llguidance's threads fill one bit per token on the host for all rows at once; one operation then masks the logits. On
an asynchronous device the bits are filled while the model still computes.
"""

from __future__ import annotations

from collections.abc import Iterator
from collections.abc import Sequence as Rows
from dataclasses import dataclass

import llguidance
import llguidance.numpy
import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from inference_worker.engine.sequence import Sequence
from inference_worker.structured.matcher import Matcher

Words = npt.NDArray[np.int32]
"""Token bitmasks, [C, W]: bit b of word w is set if token 32 * w + b is allowed."""


@dataclass(frozen=True)
class _Run:
    """Consecutive rows of one choice, from `first` on: its next token, then the token after each of its drafts."""

    matcher: Matcher
    first: int
    drafts: list[int]


class Masks:
    """Masks the logits of tokens that grammars do not allow, with llguidance's threads; one object per engine."""

    def __init__(self) -> None:
        self._threads = llguidance.LLExecutor()

    def apply(self, logits: Tensor, sequences: Rows[Sequence]) -> None:
        """Set the logits of tokens that the sequences' grammars do not allow next to -inf, in place.

        A row whose grammar allows no token stays unmasked, because its matcher rejects any sampled token. If the
        request's own bans exclude all tokens that the grammar allows, one token remains that the matcher rejects.

        Args:
            logits: [R, V].
            sequences: R sequences; drafts of a choice follow it.
        """
        rows = [row for row, sequence in enumerate(sequences) if sequence.active_matcher is not None]
        if not rows:
            return
        words = self._fill([sequences[row] for row in rows], logits.shape[1])
        banned = _banned(words, logits)
        if len(rows) == len(sequences):
            logits.masked_fill_(banned, float("-inf"))
        else:
            at = torch.tensor(rows, device=logits.device)
            logits[at] = logits[at].masked_fill_(banned, float("-inf"))
        for place, row in enumerate(rows):
            if _bans(sequences[row]) and bool(logits[row].isneginf().all()):
                logits[row, banned[place].int().argmax()] = 0.0

    def _fill(self, sequences: list[Sequence], vocabulary: int) -> Words:
        words: Words = llguidance.numpy.allocate_token_bitmask(len(sequences), vocabulary)  # all allowed
        runs = list(_runs(sequences))
        plain = [(run.matcher.inner, run.first) for run in runs if not run.drafts]
        drafted = [(run.matcher.inner, run.first, run.drafts) for run in runs if run.drafts]
        if plain:
            llguidance.numpy.fill_next_token_bitmask_par(self._threads, plain, words)
        if drafted:
            llguidance.numpy.fill_next_token_bitmask_par_with_draft_tokens(self._threads, drafted, words)
        for row, sequence in enumerate(sequences):
            if sequence.matcher is not None:
                _ban_ends(words[row], sequence, sequence.matcher.end_token_ids)
                _allow_reasoning(words[row], sequence)
        words[~words.any(axis=1)] = -1
        return words


def _runs(sequences: list[Sequence]) -> Iterator[_Run]:
    """Yield each choice with its drafts: the rows that share a matcher, up to a draft that begins the reasoning."""
    first = 0
    for row, sequence in enumerate(sequences):
        following = sequences[row + 1] if row + 1 < len(sequences) else None
        if sequence.matcher is not None and (following is None or not _continues(following, sequence)):
            drafts = sequence.token_ids[len(sequences[first].token_ids) :].tolist()
            yield _Run(sequence.matcher, first, drafts)
            first = row + 1


def _continues(row: Sequence, before: Sequence) -> bool:
    """Return whether a row is the one after `before`, with the next draft of the same choice."""
    return row.matcher is before.matcher and len(row.token_ids) == len(before.token_ids) + 1


def _allow_reasoning(row: Words, sequence: Sequence) -> None:
    """Allow the token that begins the reasoning, which precedes the grammar, where it may still come."""
    token = None if sequence.reasoning is None else sequence.reasoning.begins_with
    if token is not None and 0 <= token < 32 * len(row):
        row.view(np.uint32)[token // 32] |= np.uint32(1 << token % 32)


def _bans(sequence: Sequence) -> bool:
    return bool(sequence.bad_words) or sequence.sampling.allowed_token_ids is not None


def _ban_ends(row: Words, sequence: Sequence, ends: frozenset[int]) -> None:
    """Mask end tokens with `ignore_eos`, and stop tokens below `min_tokens`, unless no other token is allowed.

    So the grammar has precedence: a complete output ends, however short.
    """
    wanted = sequence.sampling
    early_stops = sequence.stop_ids if sequence.generated < wanted.min_tokens else frozenset[int]()
    ignored = ends if wanted.ignore_eos else frozenset[int]()
    unwanted = [token for token in early_stops | ignored if 0 <= token < 32 * len(row)]
    if not unwanted:
        return
    kept = row.view(np.uint32).copy()
    for token in unwanted:
        kept[token // 32] &= np.uint32(~(1 << token % 32) & 0xFFFFFFFF)
    if kept.any():
        row[:] = kept.view(np.int32)


def _banned(words: Words, logits: Tensor) -> Tensor:
    """Return the inverse of the bits [C, W] as bools [C, V] on the device of the logits."""
    bits = np.unpackbits((~words).view(np.uint8), axis=1, bitorder="little", count=logits.shape[1])
    return torch.from_numpy(bits).view(torch.bool).to(logits.device, non_blocking=True)
