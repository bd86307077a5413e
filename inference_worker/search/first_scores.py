"""Keeps the first score of each beginning of a path, so that rounding never decides between paths with equal scores."""

from __future__ import annotations

from collections.abc import Iterable
from hashlib import sha256


class FirstScores:
    """The verifier's first score of each text that a path of one search began with, by a chained hash of its steps.

    A score depends on the text up to the end of its step, and is rounded differently in each batch. Paths that begin
    alike are often compared by the score of that beginning: equal paths, or all that share their worst step.
    """

    def __init__(self, separator: str) -> None:
        """`separator`: text at the end of a step that the verifier does not read; "" if it reads all."""
        self._separator = separator
        self._scores: dict[bytes, float] = {}

    def apply(self, texts: Iterable[str], scores: list[float]) -> list[float]:
        """Return `scores`, each replaced by the first one of the same text, and keep those that are new.

        `texts` are a path's steps; the last of `scores` is that of all of them, the one before of all but the last.
        """
        digest, digests = b"", list[bytes]()
        for text in texts:
            digest = sha256(digest + text.removesuffix(self._separator).encode()).digest()
            digests.append(digest)
        ends = digests[len(digests) - len(scores) :]
        return [self._scores.setdefault(end, score) for end, score in zip(ends, scores, strict=True)]
