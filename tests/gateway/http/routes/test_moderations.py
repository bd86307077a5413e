"""`/v1/moderations`: one result per input, of a classifier's one job or of the operator's rules."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import AsyncExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx
import pytest

from gateway.moderation.categories import CATEGORIES
from gateway.moderation.rules import RULES_MODEL
from gateway.openai.moderations import ModerationList
from router.bus import Bus
from router.messages import ScorePrompt, Task, Usage
from router.transport.memory import MemoryTransport
from tests.fakes.scripted_worker import LABELS, ScriptedWorker, classify
from tests.gateway.conftest import MODEL, SetStage, Stage, eventually

CLASSIFIER = "org/classifier"
RULES = '[categories.violence]\nwords = ["violence"]\n[categories.leaks]\nwords = ["secret"]\n'


@dataclass
class Classifying:
    """A stage with a worker that classifies beside the one that generates."""

    stage: Stage
    worker: ScriptedWorker

    async def __call__(self, input: Any, **fields: Any) -> httpx.Response:
        return await self.stage.client.post("/v1/moderations", json={"input": input, **fields})


@pytest.fixture
async def classifying(set_stage: SetStage, tmp_path: Path) -> AsyncIterator[Classifying]:
    (tmp_path / "rules.toml").write_text(RULES)
    stage = await set_stage(moderation_rules=str(tmp_path / "rules.toml"))
    async with AsyncExitStack() as stack:
        bus = Bus(MemoryTransport(stage.broker, "worker-2"))
        await bus.start()
        stack.push_async_callback(bus.close)
        worker = ScriptedWorker(bus, CLASSIFIER, classify, "worker-2", task=Task.SCORE, labels=LABELS)
        await stack.enter_async_context(worker.running())
        await eventually(lambda: stage.gateway.models.find(CLASSIFIER) is not None)
        yield Classifying(stage, worker)


def flagged(response: httpx.Response) -> list[set[str]]:
    """The flagged categories of each result, after a check of its form."""
    assert response.status_code == 200, response.text
    body = response.json()
    ModerationList.model_validate(body)
    found = []
    for result in body["results"]:
        names = {*CATEGORIES, "leaks"}
        assert {*result["categories"]} == {*result["category_scores"]} == names
        assert result["category_applied_input_types"] == {name: ["text"] for name in names}
        found.append({name for name, is_flagged in result["categories"].items() if is_flagged})
        assert result["flagged"] is bool(found[-1])
    return found


@pytest.mark.parametrize(
    ("input", "found"),
    [
        ("violence", [{"violence"}]),
        ("a male voice", [set()]),
        ("", [set()]),
        (["toxic", "fine", "self harm and violence"], [{"harassment"}, set(), {"self-harm", "violence"}]),
        ([{"type": "text", "text": "toxic"}, {"type": "text", "text": "violence"}], [{"harassment", "violence"}]),
    ],
)
async def test_a_classifier(classifying: Classifying, input: Any, found: list[set[str]]) -> None:
    response = await classifying(input, model=CLASSIFIER)
    assert flagged(response) == found
    body = response.json()
    (job,) = classifying.worker.jobs
    assert isinstance(job.prompt, ScorePrompt)
    assert (body["id"], body["model"]) == (job.id, CLASSIFIER)
    assert job.id.startswith("modr-")
    assert body["results"][0]["category_scores"]["violence"] == (0.9 if "violence" in found[0] else 0.1)
    receipt = await classifying.stage.receipt()
    assert receipt.usage == Usage(prompt_tokens=3 * len(job.prompt.candidates))


async def test_a_long_text_is_classified_in_pieces(classifying: Classifying) -> None:
    assert flagged(await classifying(["x " * 300 + "violence" + " y" * 300, "fine"], model=CLASSIFIER)) == [
        {"violence"},
        set(),
    ]
    (job,) = classifying.worker.jobs
    assert isinstance(job.prompt, ScorePrompt)
    assert len(job.prompt.candidates) > 8


@pytest.mark.parametrize("model", [RULES_MODEL, None, "omni-moderation-latest", "text-moderation-stable"])
async def test_the_rules(classifying: Classifying, model: str | None) -> None:
    response = await classifying(["a secret", "violence", "toxic"], model=model)
    assert flagged(response) == [{"leaks"}, {"violence"}, set()]
    assert response.json()["model"] == RULES_MODEL
    assert not classifying.worker.jobs
    assert not classifying.stage.billing.held


async def test_openais_name_is_an_alias_of_a_classifier(set_stage: SetStage, tmp_path: Path) -> None:
    (tmp_path / "aliases.toml").write_text(f'[aliases]\nomni-moderation-latest = "{CLASSIFIER}"\n')
    stage = await set_stage(classify, model_aliases=str(tmp_path / "aliases.toml"))
    bus = Bus(MemoryTransport(stage.broker, "worker-2"))
    await bus.start()
    async with ScriptedWorker(bus, CLASSIFIER, classify, "worker-2", task=Task.SCORE, labels=LABELS).running():
        await eventually(lambda: stage.gateway.models.find(CLASSIFIER) is not None)
        response = await stage.client.post("/v1/moderations", json={"input": "toxic"})
        assert (response.status_code, response.json()["model"]) == (200, CLASSIFIER)
    await bus.close()


@pytest.mark.parametrize(
    ("input", "fields", "status", "param"),
    [
        ([], {}, 400, "input"),
        (7, {}, 400, "input"),
        (["a", 1], {}, 400, "input[1]"),
        ([{"type": "image_url", "image_url": {"url": "https://a.example/b.png"}}], {}, 400, "input[0]"),
        ([{"type": "text", "text": "a"}, {"type": "image_url", "image_url": {"url": "data:x"}}], {}, 400, "input[1]"),
        ("a", {"model": "org/unknown"}, 404, "model"),
        ("a", {"model": MODEL}, 404, "model"),
        ("x" * 300_000, {"model": CLASSIFIER}, 400, "input"),
    ],
)
async def test_refusals(classifying: Classifying, input: Any, fields: dict[str, Any], status: int, param: str) -> None:
    response = await classifying(input, **fields)
    assert (response.status_code, response.json()["error"]["param"]) == (status, param), response.text


@pytest.mark.parametrize("model", [None, "omni-moderation-latest"])
async def test_without_rules_openais_models_are_unknown(set_stage: SetStage, model: str | None) -> None:
    stage = await set_stage()
    response = await stage.client.post("/v1/moderations", json={"input": "a", "model": model})
    error = response.json()["error"]
    assert (response.status_code, error["code"], error["param"]) == (404, "model_not_found", "model")
    assert ("omni" in error["message"]) is (model is not None), "it names a model that the request does not name"


async def test_a_classifier_scores_no_pairs(classifying: Classifying) -> None:
    body = {"model": CLASSIFIER, "text_1": "a", "text_2": "b"}
    response = await classifying.stage.client.post("/v1/score", json=body)
    assert response.status_code == 400
    assert "/v1/moderations" in response.json()["error"]["message"]
    listed = (await classifying.stage.client.get(f"/v1/models/{CLASSIFIER}")).json()
    assert (listed["task"], listed["labels"]) == ("score", list(LABELS))
