"""Searches vector stores for a request, with the jobs that embed its queries and rank the found passages again."""

from __future__ import annotations

import asyncio
from array import array
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from auth_billing.access.principal import Principal
from documents.content import Passage
from documents.search.filters import Combination, Comparison, Filter
from documents.search.index import Hit, Question, SearchQuery
from gateway.openai.vector_store_search import ComparisonFilter, HybridWeights, RankingOptions, SearchFilter
from gateway.vector_stores.query_jobs import Submit, chosen_reranker, embedded_queries, relevance_scores
from gateway.vector_stores.services import SearchServices
from router.messages import UsagePart
from stored_objects.vector_stores.audit_actions import searched
from stored_objects.vector_stores.records import VectorStore

ANSWER_RESULTS = 8
"""Passages of a search for an answer whose request sets no number."""
RERANKED = 50
"""Passages that a reranker compares with the queries."""


@dataclass(frozen=True)
class Queries:
    """Query texts of a search in vector stores, with its filter and ranking."""

    texts: Sequence[str]
    limit: int
    filter: SearchFilter | None = None
    ranking: RankingOptions = field(default_factory=RankingOptions)
    requires_relevance: bool = False
    """Return nothing of a vector store where no passage fits, as far as vectors and words tell."""


@dataclass(frozen=True)
class SearchHit:
    """A passage of a vector store that a search has found."""

    store: str
    """Id of the vector store."""
    file: str
    """Id of the file."""
    hit: Hit

    @property
    def key(self) -> tuple[str, int]:
        """Identity of the passage: the id of its file, and its number there."""
        return self.file, self.hit.number

    @property
    def source(self) -> dict[str, Any]:
        """File and vector store of the passage, and its place there: number, page, headings, offsets in the text."""
        passage = self.hit.passage
        return {
            "file_id": self.file,
            "filename": self.hit.file.name,
            "vector_store_id": self.store,
            "passage": self.hit.number,
            "page": passage.page,
            "heading_path": list(passage.heading_path),
            "start": passage.start,
            "end": passage.end,
        }

    def as_result(self) -> dict[str, Any]:
        """Return the passage as answers show it: its source, and score, attributes and text as OpenAI's results."""
        attributes = dict(self.hit.file.attributes)
        return {
            **self.source,
            "score": round(self.hit.score, 6),
            "attributes": attributes,
            "text": self.hit.passage.text,
        }

    def with_passage(self, passage: Passage) -> SearchHit:
        """Return the hit with another text of its passage."""
        return replace(self, hit=replace(self.hit, passage=passage))

    def with_score(self, score: float) -> SearchHit:
        """Return the hit with another score."""
        return replace(self, hit=replace(self.hit, score=score))


async def search_stores(
    services: SearchServices,
    caller: Principal,
    stores: Sequence[VectorStore],
    queries: Queries,
    submit: Submit,
    *,
    address: str,
) -> tuple[list[SearchHit], list[UsagePart]]:
    """Return the passages of several vector stores that fit best, and what the jobs of the search have used.

    The passages of one vector store are ranked by words and vectors; those of several are merged by place. A reranker
    then ranks the first of them again. The search is recorded in the audit log of an organisation that wants that.
    `address`: the client's network address.

    Raises:
        ModelNotFound, ModelUnavailable: An embedding model or the reranker is not served, or the caller may not use it.
        InvalidRequest: The reranker does not score pairs of texts.
        IndexNotReady, StoreUnavailable: A vector store can't be searched, or the search not recorded now.
        GenerationError, AccountError, PublishError, Overloaded: As for a request of embeddings or scores.
    """
    reranker = chosen_reranker(services, caller, queries.ranking)
    vectors: dict[str, list[bytes]] = {}
    parts: list[UsagePart] = []
    weights = queries.ranking.hybrid_search or HybridWeights(embedding_weight=1.0, text_weight=1.0)
    if weights.embedding_weight:
        await asyncio.gather(*map(services.searches.prepare, stores))  # before anything is billed
        for embedder in dict.fromkeys(each.embedder for each in stores):
            vectors[embedder], part = await embedded_queries(services, caller, embedder, queries.texts, submit)
            parts.append(part)
    threshold = queries.ranking.score_threshold or 0.0
    limit = queries.limit if reranker is None else max(queries.limit, RERANKED)

    async def search(store: VectorStore) -> list[SearchHit]:
        of_store: Sequence[bytes | None] = vectors.get(store.embedder) or [None] * len(queries.texts)
        questions = [
            Question(text, None if vector is None else array("f", vector))
            for text, vector in zip(queries.texts, of_store, strict=True)
        ]
        query = SearchQuery(
            questions,
            limit,
            None if queries.filter is None else to_filter(queries.filter),
            threshold if reranker is None else 0.0,
            weights.embedding_weight,
            weights.text_weight,
            requires_relevance=queries.requires_relevance,
        )
        hits = await services.searches.search(store, query)
        return [SearchHit(store.id, each.file.key.rpartition("/")[2], each) for each in hits]

    found = await asyncio.gather(*(search(each) for each in stores))
    best = _merged(found)[:limit]
    if reranker is not None and best:
        passages = [each.hit.passage for each in best]
        scores, part = await relevance_scores(services, caller, reranker, queries.texts, passages, submit=submit)
        parts.append(part)
        best = _ranked_again(best, scores, threshold)[: queries.limit]
    accesses = [
        searched(store, [(each.file, each.hit.file.name) for each in best if each.store == store.id])
        for store in stores
    ]
    await services.administration.document_audit.record(caller, accesses, address)
    return best, parts


def to_filter(given: SearchFilter) -> Filter:
    """Return a filter of the API as the index has it."""
    if isinstance(given, ComparisonFilter):
        return Comparison(given.key, given.type, given.value)
    return Combination(given.type, [to_filter(each) for each in given.filters])


def _merged(found: Sequence[Sequence[SearchHit]]) -> list[SearchHit]:
    """Return the hits of several vector stores by their places, each passage once; equal places by score."""
    placed = [(place, -each.hit.score, each) for hits in found for place, each in enumerate(hits)]
    best: dict[tuple[str, int], SearchHit] = {}
    for _, _, each in sorted(placed, key=lambda each: each[:2]):
        best.setdefault(each.key, each)
    return list(best.values())


def _ranked_again(hits: Sequence[SearchHit], scores: Sequence[float], threshold: float) -> list[SearchHit]:
    """Return the hits whose new scores reach the threshold, the highest first."""
    scored = [each.with_score(score) for each, score in zip(hits, scores, strict=True) if score >= threshold]
    return sorted(scored, key=lambda each: -each.hit.score)
