"""Fusion of a search by words with one by vectors: scores that can be added.

Each counts by how far a passage stands out from the others. Places, as in reciprocal rank fusion, hide that: a vector
that the embedder has of a language it was not trained in is as near to one passage as to a hundred others, and
outweighs the passage that has all words (docs/adr/0078).
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

Cosines = npt.NDArray[np.float32]

DEVIATIONS = 5.0
"""Standard deviations above the mean at which a cosine counts as much as all words of a query."""
SHARE_WEIGHT = 0.75
"""Weight of the share of words that a passage has; the rest is that of BM25."""


def vector_score(cosines: Cosines, searched: npt.NDArray[np.bool_]) -> Cosines:
    """Return how far the cosine of each row exceeds the mean of the `searched` rows, in units of `DEVIATIONS`."""
    of_searched = cosines if searched.all() else cosines[searched]
    deviation = float(of_searched.std()) if len(of_searched) else 0.0
    if not deviation:
        return np.zeros_like(cosines)
    return np.asarray((cosines - of_searched.mean()) / (DEVIATIONS * deviation), np.float32)


def word_score(share: float, bm25: float, best_bm25: float) -> float:
    """Return the weighted mean of the share of a query's words that a passage has, and of its BM25 over the best one.

    The share says how many of the words a passage has, and BM25 how much of the passage is about them: a word that is
    repeated does not replace another one.
    """
    return SHARE_WEIGHT * share + (1 - SHARE_WEIGHT) * (bm25 / best_bm25 if best_bm25 else 0.0)
