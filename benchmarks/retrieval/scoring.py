"""Scores what searches found: recall and nDCG of documents, places of answers, citations and refusals.

A document has the place of its best passage, as BEIR's measures compare documents.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence, Set
from dataclasses import dataclass

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


@dataclass(frozen=True)
class Accepted:
    """Queries, by id, to which the product says that passages are relevant: it answers them, and refuses the others."""

    complete: Set[str]
    """Of searches in all documents."""
    reduced: Set[str]
    """Of searches of answerable queries in the documents that do not answer them."""


def score(queries: Sequence[Query], searched: Searched, accepted: Accepted) -> Row:
    """Return the measures of `queries` as a result row.

    Recall, nDCG and the places of answers are of answerable queries, refused or not. Citation precision is the share of
    accepted queries, unanswerable ones too, whose first passage answers them. `refused` are the shares of queries that
    are refused: unanswerable ones, answerable ones, and answerable ones without the documents that answer them, except
    for near misses, of which another document has almost the answer.
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
    cited = [each for each in queries if each.id in accepted.complete]
    row["citation_precision"] = _mean(answer_place(each, searched[each.id][:1]) == 1 for each in cited)
    if others:
        row["refused_unanswerable"] = _mean(each.id not in accepted.complete for each in others)
    row["refused_answerable"] = _mean(each.id not in accepted.complete for each in answerable)
    if reduced := [each for each in answerable if each.can_lose_documents]:
        row["refused_without_documents"] = _mean(each.id not in accepted.reduced for each in reduced)
    return row


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


def _gain(gains: Sequence[int]) -> float:
    return sum(gain / math.log2(place + 1) for place, gain in enumerate(gains[:NDCG_PLACES], 1))


def _mean(values: Iterable[float]) -> float:
    given = list(values)
    return sum(given) / len(given) if given else 0.0
