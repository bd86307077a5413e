"""Builds the response bodies of `/v1/score` and `/v1/rerank` from the scores of candidates."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from gateway.openai.scores import Document, RankedDocument, Ranking, RerankRequest, Score, ScoreList, ScoreUsage
from router.messages import Usage


class CandidateScore(NamedTuple):
    """The score of one candidate, and those of its steps, if the model scores steps."""

    score: float
    steps: list[float] | None


def score_list(scores: Sequence[CandidateScore], *, id: str, created: int, model: str, usage: Usage) -> ScoreList:
    """Return the response body of `/v1/score`, with `scores` in order of the candidates."""
    data = [Score(index=index, score=each.score, step_scores=each.steps) for index, each in enumerate(scores)]
    return ScoreList(id=id, created=created, model=model, data=data, usage=_usage(usage))


def ranking(scores: Sequence[CandidateScore], request: RerankRequest, *, id: str, model: str, usage: Usage) -> Ranking:
    """Return the response body of `/v1/rerank`: the request's documents by falling score, as many as requested."""
    texts = request.texts if request.return_documents is not False else None
    ranked = sorted(range(len(scores)), key=lambda index: scores[index].score, reverse=True)
    results = [
        RankedDocument(
            index=index,
            document=Document(text=texts[index]) if texts is not None else None,
            relevance_score=scores[index].score,
        )
        for index in ranked[: request.top_n or None]
    ]
    return Ranking(id=id, model=model, usage=_usage(usage), results=results)


def _usage(usage: Usage) -> ScoreUsage:
    return ScoreUsage(prompt_tokens=usage.prompt_tokens, total_tokens=usage.prompt_tokens)
