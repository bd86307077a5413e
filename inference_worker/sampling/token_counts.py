"""Which tokens a sequence has, and how often each was generated; kept up to date token by token.

Knows no scores: penalties read it.
"""

from __future__ import annotations

from collections.abc import Sequence as Rows
from typing import Any

import numpy as np
from numpy.typing import NDArray

from inference_worker.sequence import Sequence


class TokenCounts:
    """The distinct tokens of one sequence, prompt included."""

    def __init__(self, sequence: Sequence) -> None:
        self._seen = len(sequence.token_ids)
        known, places = np.unique(np.frombuffer(sequence.token_ids.tobytes(), np.int64), return_inverse=True)
        generated = np.bincount(places[sequence.prompt_length :], minlength=len(known)).astype(np.float32)
        self._size = len(known)
        self._token_ids, self._generated = _with_room(known), _with_room(generated)
        self._place = dict(zip(known.tolist(), range(len(known)), strict=True))

    @property
    def token_ids(self) -> NDArray[np.int64]:
        """[N], in no order; a view."""
        return self._token_ids[: self._size]

    @property
    def generated(self) -> NDArray[np.float32]:
        """[N]: how often each of `token_ids` was generated; a view."""
        return self._generated[: self._size]

    def catch_up(self, sequence: Sequence) -> None:
        """Count what was generated since the last time."""
        for token in sequence.token_ids[self._seen :]:
            place = self._place.setdefault(token, self._size)
            if place == self._size:
                self._append(token)
            self._generated[place] += 1
        self._seen = len(sequence.token_ids)

    def _append(self, token: int) -> None:
        if self._size == len(self._token_ids):
            self._token_ids, self._generated = _with_room(self._token_ids), _with_room(self._generated)
        self._token_ids[self._size] = token
        self._size += 1


class Histories:
    """Remembers the counts of the sequences of the last step."""

    def __init__(self) -> None:
        self._counts: dict[Sequence, TokenCounts] = {}

    def of(self, sequences: Rows[Sequence]) -> list[TokenCounts]:
        """The counts of these, up to date; those of all others are forgotten."""
        self._counts = {s: self._counts.get(s) or TokenCounts(s) for s in sequences}
        for sequence, counts in self._counts.items():
            counts.catch_up(sequence)
        return list(self._counts.values())


def _with_room(values: NDArray[Any]) -> NDArray[Any]:
    """Followed by as many zeros, 64 at least."""
    return np.concatenate((values, np.zeros(max(len(values), 64), values.dtype)))
