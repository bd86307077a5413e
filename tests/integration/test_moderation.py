"""Moderation from end to end: OpenAI's client, gateway, RabbitMQ, and a worker process with a tiny classifier."""

from __future__ import annotations

from pathlib import Path

import pytest

from gateway.moderation.categories import CATEGORIES
from router.messages import Outcome
from tests.fakes.tiny_scorers import save_pair_model
from tests.gateway.conftest import eventually
from tests.inference_worker.scoring.scores import load
from tests.integration.worker_processes import worker_processes

MODEL = "classifier"
NAMES = {0: "toxic", 1: "threat", 2: "neutral"}
TEXTS = ["where is lodz?", "the mill wheel turns " * 40, "x"]

pytestmark = [pytest.mark.rabbitmq, pytest.mark.timeout(300)]


async def test_a_classifier_moderates_and_is_billed(rabbitmq_url: str, tmp_path: Path) -> None:
    save_pair_model(tmp_path, num_labels=3, id2label=NAMES, problem_type="multi_label_classification")
    reference = await load(tmp_path)([""], [TEXTS[0], TEXTS[2]])
    async with worker_processes(rabbitmq_url, tmp_path, MODEL) as platform:
        await platform.start_worker("worker-1")
        answer = await platform.client.moderations.create(input=TEXTS, model=MODEL)
        assert (answer.model, len(answer.results)) == (MODEL, 3)
        for result, expected in zip((answer.results[0], answer.results[2]), reference, strict=True):
            scores = result.category_scores.model_dump(by_alias=True)
            assert scores["harassment"] == pytest.approx(expected[0], abs=1e-5)
            assert scores["harassment/threatening"] == pytest.approx(expected[1], abs=1e-5)
            flagged = {name for name, is_flagged in result.categories.model_dump(by_alias=True).items() if is_flagged}
            assert flagged == {name for name in CATEGORIES if scores[name] >= 0.5}
            assert result.flagged is bool(flagged)
        await eventually(lambda: len(platform.receipts()) == len(platform.records()) == 1)
        (receipt,), (record,) = platform.receipts(), platform.records()
        assert (receipt.job, receipt.outcome, receipt.usage) == (answer.id, Outcome.FINISHED, record.usage)
        assert receipt.usage.prompt_tokens > 0
        listed = (await platform.http.get("models")).json()["data"]
        assert [(each["task"], each["labels"]) for each in listed] == [("score", [*NAMES.values()])]
