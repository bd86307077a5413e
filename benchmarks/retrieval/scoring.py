"""Scores what searches found: recall and nDCG of documents, places of answers, citations and refusals.

A document has the place of its best passage, as BEIR's measures compare documents.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise

from benchmarks.results import Row
from benchmarks.retrieval.data_set import Query

NDCG_PLACES = 10
RECALL_PLACES = (1, 5, 10)
ANSWER_PLACES = (1, 3, 5)


@dataclass(frozen=True)
class RetrievedPassage:
    """A passage that a search has found."""

    document: str
    text: str
    score: float


Searched = Mapping[str, Sequence[RetrievedPassage]]
"""What was found for each query, by the query's id, the best passage first."""


def score(queries: Sequence[Query], searched: Searched, threshold: float | None) -> Row:
    """Return the measures of `queries` as a result row.

    Recall, nDCG and the places of answers are of answerable queries, without a threshold. Citation precision is the
    share of queries with a passage at the threshold whose first such passage answers them; `refused` are the shares
    of unanswerable and answerable queries without one.
    """
    answerable = [each for each in queries if each.is_answerable]
    others = [each for each in queries if not each.is_answerable]
    ranked = {each.id: documents(searched[each.id]) for each in answerable}
    row: Row = {"questions": len(answerable)}
    for places in RECALL_PLACES:
        row[f"recall_at_{places}"] = _mean(recall(ranked[each.id][:places], each.grades) for each in answerable)
    row[f"ndcg_at_{NDCG_PLACES}"] = _mean(ndcg(ranked[each.id], each.grades) for each in answerable)
    if any(each.answers for each in answerable):
        firsts = [answer_place(each, searched[each.id]) for each in answerable]
        for places in ANSWER_PLACES:
            row[f"answer_in_{places}"] = _mean(place is not None and place <= places for place in firsts)
    least = threshold or 0.0
    cited = [(each, first) for each in queries if (first := first_at(searched[each.id], least)) is not None]
    row["threshold"] = threshold
    row["citation_precision"] = _mean(each.is_answered_by(first.document, first.text) for each, first in cited)
    if others and threshold is not None:
        refused = {each.id for each in queries} - {each.id for each, _ in cited}
        row["refused_unanswerable"] = _mean(each.id in refused for each in others)
        row["refused_answerable"] = _mean(each.id in refused for each in answerable)
    return row


def best_threshold(queries: Sequence[Query], searched: Searched) -> float | None:
    """Return the score that tells answerable from unanswerable queries best: by the mean of both rates.

    The lowest of equally good ones; `None` if the queries are all of one kind.
    """
    good = [_best_score(searched[each.id]) for each in queries if each.is_answerable]
    bad = [_best_score(searched[each.id]) for each in queries if not each.is_answerable]
    if not good or not bad:
        return None
    scores = sorted({*good, *bad})
    between = [round((low + high) / 2, 3) for low, high in pairwise(scores)]
    return max(
        [0.0, *between],
        key=lambda least: _mean(each >= least for each in good) + _mean(each < least for each in bad),
    )


def documents(found: Iterable[RetrievedPassage]) -> list[str]:
    """Return the documents of passages, each once, in the order of their best passages."""
    return list(dict.fromkeys(each.document for each in found))


def recall(ranked: Iterable[str], grades: Mapping[str, int]) -> float:
    """Return the share of the graded documents that are among `ranked`."""
    return len(grades.keys() & set(ranked)) / len(grades)


def ndcg(ranked: Sequence[str], grades: Mapping[str, int]) -> float:
    """Return the normalised discounted cumulative gain of the first ten documents, with the grades as gains."""
    best = _gain(sorted(grades.values(), reverse=True))
    return _gain([grades.get(each, 0) for each in ranked]) / best


def answer_place(query: Query, found: Sequence[RetrievedPassage]) -> int | None:
    """Return the place, from 1, of the first passage that answers a query; `None` if none does."""
    places = (place for place, each in enumerate(found, 1) if query.is_answered_by(each.document, each.text))
    return next(places, None)


def first_at(found: Iterable[RetrievedPassage], threshold: float) -> RetrievedPassage | None:
    """Return the first passage whose score is at least `threshold`."""
    return next((each for each in found if each.score >= threshold), None)


def _best_score(found: Sequence[RetrievedPassage]) -> float:
    return max((each.score for each in found), default=0.0)


def _gain(gains: Sequence[int]) -> float:
    return sum(gain / math.log2(place + 1) for place, gain in enumerate(gains[:NDCG_PLACES], 1))


def _mean(values: Iterable[float]) -> float:
    given = list(values)
    return sum(given) / len(given) if given else 0.0
