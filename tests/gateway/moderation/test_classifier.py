"""Which jobs classify texts, and how their scores become those of categories."""

from __future__ import annotations

import pytest

from gateway.moderation.classifier import PIECES_PER_JOB, TOKENS_PER_JOB, categories_of, check_jobs
from gateway.moderation.rules import ModerationRules
from router.messages import SamplingParams, ScorePrompt
from tests.contract.examples import JOB, msgspec_replace
from tests.gateway.moderation.test_pieces import model


@pytest.mark.parametrize(("context", "texts_per_job"), [(64, PIECES_PER_JOB), (25_000, TOKENS_PER_JOB // 25_000)])
def test_texts_are_divided_among_jobs(context: int, texts_per_job: int) -> None:
    texts = [f"text {number}" for number in range(600)]
    jobs = check_jobs(texts, model(context), JOB, first=3)
    prompts = [job.prompt for job in jobs]
    assert all(isinstance(prompt, ScorePrompt) for prompt in prompts)
    assert [text for prompt in prompts for text in prompt.candidates] == texts  # type: ignore[union-attr]
    assert max(len(prompt.candidates) for prompt in prompts) == texts_per_job  # type: ignore[union-attr]
    assert [job.id for job in jobs] == [f"{JOB.id}-m{3 + number}" for number in range(len(jobs))]


def test_a_check_keeps_nothing_of_the_answer_that_it_checks() -> None:
    parent = msgspec_replace(JOB, n=3, delivered=[5], texts=["so far"], sampling=SamplingParams(seed=7))
    [job] = check_jobs(["a"], model(64), parent, first=0)
    assert (job.model, job.parent, job.depth) == ("m", parent.id, 1)
    assert (job.n, job.delivered, job.texts, job.sampling) == (1, [], [], SamplingParams(seed=0))
    assert job.tenant == parent.tenant


def test_a_category_has_the_highest_score_of_its_labels_and_pieces() -> None:
    labels = ["toxic", "insult", "neutral", "S3"]
    scores = [[0.2, 0.7, 0.9, 0.0], [0.6, 0.1, 0.9, 0.4]]
    assert categories_of(labels, scores, ModerationRules()) == {"harassment": 0.7, "sexual/minors": 0.4}
