"""Searches vector stores for a request: embeds its queries by one job for each embedding model, then searches."""

from __future__ import annotations

import asyncio
from array import array
from collections.abc import Callable, Sequence
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass, field, replace
from typing import Any

from auth_billing.access.principal import Principal
from documents.content import Passage
from documents.search.filters import Combination, Comparison, Filter
from documents.search.index import Hit, Question, SearchQuery
from gateway.admission.controller import AdmittedRequest
from gateway.answers.collection import collect_vectors
from gateway.http.gateway import Gateway
from gateway.jobs.generation import Generation
from gateway.jobs.job_builder import Origin, build_embedding_job
from gateway.openai.embeddings import EmbeddingRequest
from gateway.openai.token_estimate import estimated_tokens
from gateway.openai.vector_store_search import ComparisonFilter, HybridWeights, RankingOptions, SearchFilter
from gateway.vector_stores.embedder import SPECIAL_TOKENS, served_embedder
from router.messages import Job, UsagePart
from stored_objects.vector_stores.audit_actions import searched
from stored_objects.vector_stores.records import VectorStore

ANSWER_RESULTS = 8
"""Passages of a search for an answer whose request sets no number."""
CUT_SHARE = 0.9
"""Most of a query that is kept by each cut as long as it is too long for the embedding model."""
TOKEN_CHARACTERS = 16
"""Characters of a query for each token that the embedding model reads, beyond which they are not counted."""

Submit = Callable[[AdmittedRequest, Sequence[Job]], AbstractAsyncContextManager[Generation]]
"""Submits the jobs of the request that searches, as `JobSubmission.submit` does."""


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


async def search_stores(
    gateway: Gateway,
    caller: Principal,
    stores: Sequence[VectorStore],
    queries: Queries,
    submit: Submit,
    *,
    address: str,
) -> tuple[list[SearchHit], list[UsagePart]]:
    """Return the passages of several vector stores that fit best, and what embedding the queries has used.

    The passages of one vector store are ranked by words and vectors; those of several are merged by place. The search
    is recorded in the audit log of an organisation that wants that. `address`: the client's network address.

    Raises:
        ModelNotFound, ModelUnavailable: An embedding model is not served, or the caller may not use it.
        IndexNotReady, StoreUnavailable: A vector store can't be searched, or the search not recorded now.
        GenerationError, AccountError, PublishError, Overloaded: As for a request of embeddings.
    """
    vectors: dict[str, list[bytes]] = {}
    parts: list[UsagePart] = []
    weights = queries.ranking.hybrid_search or HybridWeights(embedding_weight=1.0, text_weight=1.0)
    if weights.embedding_weight:
        await asyncio.gather(*map(gateway.searches.prepare, stores))  # before anything is billed
        for embedder in dict.fromkeys(each.embedder for each in stores):
            vectors[embedder], part = await _embedded(gateway, caller, embedder, queries.texts, submit)
            parts.append(part)
    threshold = queries.ranking.score_threshold

    async def search(store: VectorStore) -> list[SearchHit]:
        of_store: Sequence[bytes | None] = vectors.get(store.embedder) or [None] * len(queries.texts)
        questions = [
            Question(text, None if vector is None else array("f", vector))
            for text, vector in zip(queries.texts, of_store, strict=True)
        ]
        query = SearchQuery(
            questions,
            queries.limit,
            None if queries.filter is None else to_filter(queries.filter),
            threshold or 0.0,
            weights.embedding_weight,
            weights.text_weight,
            requires_relevance=queries.requires_relevance,
        )
        hits = await gateway.searches.search(store, query)
        return [SearchHit(store.id, each.file.key.rpartition("/")[2], each) for each in hits]

    found = await asyncio.gather(*(search(each) for each in stores))
    best = _merged(found)[: queries.limit]
    accesses = [
        searched(store, [(each.file, each.hit.file.name) for each in best if each.store == store.id])
        for store in stores
    ]
    await gateway.administration.document_audit.record(caller, accesses, address)
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


async def _embedded(
    gateway: Gateway, caller: Principal, embedder: str, texts: Sequence[str], submit: Submit
) -> tuple[list[bytes], UsagePart]:
    model = served_embedder(gateway, caller, embedder)
    longest = model.max_model_len - SPECIAL_TOKENS
    readable = await asyncio.to_thread(lambda: [cut_query(each, longest) for each in texts])
    body = EmbeddingRequest.parse({"model": model.name, "input": readable})
    admitted = await gateway.admission.admit_embeddings(caller, body)
    job = build_embedding_job(body, admitted, Origin.of(gateway.settings))
    async with submit(admitted, [job]) as generation:
        vectors = await collect_vectors(generation)
    return vectors, UsagePart(model=model.name, usage=generation.usage)


def cut_query(text: str, tokens: int) -> str:
    """Return the beginning of a query that has at most about `tokens` tokens; a long one takes milliseconds."""
    text = text[: tokens * TOKEN_CHARACTERS]
    while len(text) > 1 and (count := estimated_tokens(text)) > tokens:
        text = text[: max(1, int(len(text) * min(CUT_SHARE, tokens / count)))]
    return text
