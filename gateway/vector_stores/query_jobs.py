"""Jobs of a search in vector stores: one embeds its queries, and one of a reranker scores the passages it has found."""

from __future__ import annotations

import asyncio
import math
from collections.abc import Callable, Sequence
from contextlib import AbstractAsyncContextManager

from auth_billing.access.principal import Principal
from documents.content import Passage
from gateway.admission.controller import AdmittedRequest
from gateway.answers.collection import collect_scores, collect_vectors
from gateway.errors import InvalidRequest, ModelNotFound
from gateway.jobs.generation import Generation
from gateway.jobs.job_builder import Origin, build_embedding_job, build_score_job
from gateway.openai.embeddings import EmbeddingRequest
from gateway.openai.token_estimate import estimated_tokens
from gateway.openai.vector_store_search import RankingOptions
from gateway.vector_stores.embedder import SPECIAL_TOKENS, served_embedder
from gateway.vector_stores.services import SearchServices
from router.messages import Job, ScorePrompt, Task, UsagePart
from router.model_registry import ModelInfo

CUT_SHARE = 0.9
"""Most of a query that is kept by each cut as long as it is too long for the embedding model."""
TOKEN_CHARACTERS = 16
"""Characters of a query for each token that the embedding model reads, beyond which they are not counted."""
PAIR_TOKENS = 512
"""Most tokens of a query and a passage that a reranker reads together; longer ones are cut."""
RERANK_TOKENS = 200_000
"""Most tokens of all pairs that a reranker reads for one search."""
FUSION = ("none", "default-2024-11-15", "default_2024_08_21")
"""Names of OpenAI's rankers that leave the ranking to the fusion of words and vectors."""
_NO_RERANKER = "The reranker of this service is not served, or you may not use it: the ranker 'none' needs none."

Submit = Callable[[AdmittedRequest, Sequence[Job]], AbstractAsyncContextManager[Generation]]
"""Submits the jobs of the request that searches, as `JobSubmission.submit` does."""


async def embedded_queries(
    services: SearchServices, caller: Principal, embedder: str, texts: Sequence[str], submit: Submit
) -> tuple[list[bytes], UsagePart]:
    """Return the vector of each query text (float32, little-endian) by an embedding model, and what that has used.

    Raises:
        ModelNotFound, ModelUnavailable: The model is not served, or the caller may not use it.
        GenerationError, AccountError, PublishError, Overloaded: As for a request of embeddings.
    """
    model = served_embedder(services, caller, embedder)
    longest = model.max_model_len - SPECIAL_TOKENS
    readable = await asyncio.to_thread(lambda: [cut_query(each, longest) for each in texts])
    body = EmbeddingRequest.parse({"model": model.name, "input": readable})
    admitted = await services.admission.admit_embeddings(caller, body)
    job = build_embedding_job(body, admitted, Origin.of(services.settings))
    async with submit(admitted, [job]) as generation:
        vectors = await collect_vectors(generation)
    return vectors, UsagePart(model=model.name, usage=generation.usage)


def cut_query(text: str, tokens: int) -> str:
    """Return the beginning of a query that has at most about `tokens` tokens; a long one takes milliseconds."""
    text = text[: tokens * TOKEN_CHARACTERS]
    while len(text) > 1 and (count := estimated_tokens(text)) > tokens:
        text = text[: max(1, int(len(text) * min(CUT_SHARE, tokens / count)))]
    return text


def chosen_reranker(services: SearchServices, caller: Principal, ranking: RankingOptions) -> ModelInfo | None:
    """Return the model that ranks passages again: that of the request, else that of the setting, if there is one.

    Raises:
        ModelNotFound, ModelUnavailable: The model is not served, or the caller may not use it.
        InvalidRequest: The model does not score pairs of texts.
    """
    is_default = ranking.ranker in (None, "auto")
    name = services.settings.rerank_model if is_default else ranking.ranker
    if not name or name in FUSION:
        return None
    try:
        model = services.catalogue.find(name, caller.models, param="ranker")
    except ModelNotFound as error:
        if is_default:
            raise ModelNotFound(_NO_RERANKER, param="ranker") from error
        raise
    if model.task is not Task.SCORE or model.labels:
        raise InvalidRequest(f"The model '{model.name}' does not score pairs of texts.", param="ranker")
    return model


async def relevance_scores(
    services: SearchServices,
    caller: Principal,
    reranker: ModelInfo,
    queries: Sequence[str],
    passages: Sequence[Passage],
    *,
    submit: Submit,
) -> tuple[list[float], UsagePart]:
    """Return how relevant each passage is to one of the queries (0 to 1) by a reranker, and what that has used.

    Raises:
        GenerationError, AccountError, PublishError, Overloaded: As for a request of scores.
    """
    texts = ["\n".join((*each.heading_path, each.text)) for each in passages]
    pairs = [(query, text) for query in queries for text in texts]
    prompt = ScorePrompt(contexts=[query for query, _ in pairs], candidates=[text for _, text in pairs], raw=True)
    longest = min(PAIR_TOKENS, reranker.max_model_len, RERANK_TOKENS // len(pairs))
    admitted = await services.admission.admit_scores(caller, reranker.name, prompt, longest)
    job = build_score_job(prompt, longest, admitted, Origin.of(services.settings))
    async with submit(admitted, [job]) as generation:
        logits = [each.score for each in await collect_scores(generation)]
    best = [max(logits[number :: len(texts)]) for number in range(len(texts))]
    return [_sigmoid(each) for each in best], UsagePart(model=reranker.name, usage=generation.usage)


def _sigmoid(logit: float) -> float:
    return 1 / (1 + math.exp(-logit)) if logit >= 0 else math.exp(logit) / (1 + math.exp(logit))
