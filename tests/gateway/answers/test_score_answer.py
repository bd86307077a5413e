"""Answers of scores and rankings."""

from __future__ import annotations

from gateway.answers.score_answer import CandidateScore, ranking, score_list
from gateway.openai.scores import RerankRequest
from router.messages import Usage

SCORES = [CandidateScore(0.25, None), CandidateScore(0.75, [0.5, 0.75]), CandidateScore(0.25, None)]
USAGE = Usage(prompt_tokens=7)


def test_scores_keep_the_order_of_the_candidates() -> None:
    answer = score_list(SCORES, id="score-1", created=5, model="m", usage=USAGE).model_dump()
    assert [each["score"] for each in answer["data"]] == [0.25, 0.75, 0.25]
    assert [each.get("step_scores") for each in answer["data"]] == [None, [0.5, 0.75], None]
    assert answer["usage"] == {"prompt_tokens": 7, "total_tokens": 7}


def test_equally_relevant_documents_keep_their_order() -> None:
    request = RerankRequest.parse({"model": "m", "query": "q", "documents": ["a", "b", "c"], "top_n": 2})
    results = ranking(SCORES, request, id="score-1", model="m", usage=USAGE).results
    assert [(each.index, each.document.text if each.document else "") for each in results] == [(1, "b"), (0, "a")]
