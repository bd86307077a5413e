"""Lists the distinct tokens of a sequence and counts how often each was generated, for the sampling penalties."""

from __future__ import annotations

from collections.abc import Sequence as Rows
from typing import Any

import numpy as np
from numpy.typing import NDArray

from inference_worker.engine.sequence import Sequence


class TokenCounts:
    """The distinct tokens of one sequence, prompt included, and how often each was generated."""

    def __init__(self, sequence: Sequence) -> None:
        self._seen = len(sequence.token_ids)
        known, places = np.unique(np.frombuffer(sequence.token_ids.tobytes(), np.int64), return_inverse=True)
        generated = np.bincount(places[sequence.prompt_length :], minlength=len(known)).astype(np.float32)
        self._size = len(known)
        self._token_ids, self._generated = _with_room(known), _with_room(generated)
        self._place = dict(zip(known.tolist(), range(len(known)), strict=True))

    @property
    def token_ids(self) -> NDArray[np.int64]:
        """Distinct token ids of the sequence, [N], in no order; a view."""
        return self._token_ids[: self._size]

    @property
    def generated(self) -> NDArray[np.float32]:
        """How often each of `token_ids` was generated, [N], not counting the prompt; a view."""
        return self._generated[: self._size]

    def catch_up(self, sequence: Sequence) -> None:
        """Count the tokens that `sequence`, of which these are the counts, has generated since the last call."""
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


class TokenCountCache:
    """A cache of `TokenCounts` for the sequences of the last step that set penalties."""

    def __init__(self) -> None:
        self._counts: dict[Sequence, TokenCounts] = {}

    def of(self, sequences: Rows[Sequence]) -> list[TokenCounts]:
        """Return the updated token counts of each of `sequences`, and drop the counts of all other sequences."""
        self._counts = {s: self._counts.get(s) or TokenCounts(s) for s in sequences}
        for sequence, counts in self._counts.items():
            counts.catch_up(sequence)
        return list(self._counts.values())


def _with_room(values: NDArray[Any]) -> NDArray[Any]:
    """Return `values` followed by as many zeros, at least 64."""
    return np.concatenate((values, np.zeros(max(len(values), 64), values.dtype)))
