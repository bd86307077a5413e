"""Moderation of projects: prompts and answers of every route are checked, by a classifier or by rules, and billed."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from auth_billing.people.moderation_policies import ModerationPolicy
from gateway.moderation.rules import RULES_MODEL
from router.bus import Bus
from router.messages import Delta, FailureCode, Finished, Job, Outcome, Task, Usage, UsagePart
from router.transport.memory import MemoryTransport
from tests.fakes.scripted_worker import (
    LABELS,
    Script,
    ScriptedWorker,
    classify,
    fail,
    never,
    say,
    start_and_wait,
)
from tests.gateway.conftest import HI, MODEL, Serve, SetStage, Stage, eventually

CLASSIFIER = "org/classifier"
RULES = '[categories.violence]\nwords = ["violence"]\n[categories.harassment]\npatterns = ["toxic"]\n'
FINE = say("fine")
HARMLESS = "Water turns the wheel. " * 8
REJECTED = {"type": "invalid_request_error", "param": None, "code": "content_policy_violation"}


@dataclass
class Moderated:
    """A stage with a classifier beside the model that generates, whose project has a policy."""

    stage: Stage
    classifier: ScriptedWorker

    def policy(self, model: str = CLASSIFIER, **fields: Any) -> None:
        policies = self.stage.organisation.moderation_policies.policies
        policies["tenant-1", "project-1"] = ModerationPolicy(model, **fields)


@pytest.fixture
async def moderated(set_stage: SetStage, tmp_path: Path) -> AsyncIterator[Any]:
    (tmp_path / "rules.toml").write_text(RULES)
    async with AsyncExitStack() as stack:

        async def set_up(script: Script = FINE, classifier: Script = classify, **settings: Any) -> Moderated:
            stage = await set_stage(script, moderation_rules=str(tmp_path / "rules.toml"), **settings)
            bus = Bus(MemoryTransport(stage.broker, "worker-2"))
            await bus.start()
            stack.push_async_callback(bus.close)
            worker = ScriptedWorker(bus, CLASSIFIER, classifier, "worker-2", task=Task.SCORE, labels=LABELS)
            await stack.enter_async_context(worker.running())
            await eventually(lambda: stage.gateway.models.find(CLASSIFIER) is not None)
            return Moderated(stage, worker)

        yield set_up


USER = [{"role": "user", "content": "some violence"}]
USER_FINE = [{"role": "user", "content": "fine"}]
REQUESTS: list[tuple[str, dict[str, Any]]] = [
    ("/v1/chat/completions", {"messages": USER}),
    ("/v1/chat/completions", {"messages": USER, "stream": True}),
    ("/v1/completions", {"prompt": ["fine", "some violence"]}),
    ("/v1/responses", {"input": "some violence"}),
    ("/v1/responses", {"input": "some violence", "background": True}),
    ("/v1/chat/completions", {"messages": USER_FINE, "chat_template_kwargs": {"persona": "some violence"}}),
    ("/v1/messages", {"messages": USER, "max_tokens": 9}),
    ("/api/chat", {"messages": USER}),
    ("/api/generate", {"prompt": "some violence"}),
]


@pytest.mark.parametrize(("path", "fields"), REQUESTS)
@pytest.mark.parametrize("model", [CLASSIFIER, RULES_MODEL])
async def test_a_blocked_prompt_is_refused_and_costs_nothing(
    moderated: Any, path: str, fields: dict[str, Any], model: str
) -> None:
    set_up = await moderated()
    set_up.policy(model)
    response = await set_up.stage.client.post(path, json={"model": MODEL, **fields})
    assert response.status_code == 400, response.text
    assert "rejected by the moderation of this project: violence" in response.text
    if path.startswith(("/v1/chat", "/v1/comp", "/v1/resp")):
        error = response.json()["error"]
        assert {name: error[name] for name in REJECTED} == REJECTED
    assert not set_up.stage.worker.jobs
    await eventually(lambda: bool(set_up.stage.billing.voided))
    assert set_up.stage.billing.voided == [*set_up.stage.billing.held]
    assert not set_up.stage.receipts


@pytest.mark.parametrize(("path", "fields"), REQUESTS)
async def test_other_prompts_are_answered(moderated: Any, path: str, fields: dict[str, Any]) -> None:
    set_up = await moderated()
    set_up.policy(categories=frozenset({"harassment"}))
    response = await set_up.stage.client.post(path, json={"model": MODEL, **fields})
    assert response.status_code == 200, response.text
    await eventually(lambda: len(set_up.stage.receipts) == len(set_up.stage.worker.jobs) > 0)


async def test_token_ids_are_refused_where_prompts_are_checked(moderated: Any) -> None:
    set_up = await moderated()
    set_up.policy(prompts=False)
    assert (await set_up.stage.complete([1, 2, 3])).status_code == 200
    set_up = await moderated()
    set_up.policy()
    refused = await set_up.stage.complete([1, 2, 3])
    assert (refused.status_code, refused.json()["error"]["param"]) == (400, "prompt")


ANSWERS: list[tuple[str, dict[str, Any]]] = [
    ("/v1/chat/completions", {"messages": [{"role": "user", "content": "hi"}]}),
    ("/v1/completions", {"prompt": "hi"}),
    ("/v1/responses", {"input": "hi"}),
    ("/v1/messages", {"messages": [{"role": "user", "content": "hi"}], "max_tokens": 99}),
    ("/api/chat", {"messages": [{"role": "user", "content": "hi"}]}),
]
ENDS = {
    "/v1/chat/completions": '"finish_reason":"content_filter"',
    "/v1/completions": '"finish_reason":"content_filter"',
    "/v1/responses": '"reason":"content_filter"',
    "/v1/messages": '"stop_reason":"refusal"',
    "/api/chat": '"done_reason":"stop"',
}


@pytest.mark.parametrize(("path", "fields"), ANSWERS)
@pytest.mark.parametrize("model", [CLASSIFIER, RULES_MODEL])
@pytest.mark.parametrize("stream", [False, True])
async def test_nothing_of_a_blocked_answer_is_sent(
    moderated: Any, path: str, fields: dict[str, Any], model: str, stream: bool
) -> None:
    words = [f"{word} " for word in HARMLESS.split()]
    set_up = await moderated(say(*words, "some ", "vio", "lence. ", *words))
    set_up.policy(model, prompts=False)
    response = await set_up.stage.client.post(path, json={"model": MODEL, "stream": stream, **fields})
    assert response.status_code == 200, response.text
    assert ENDS[path] in response.text.replace('": ', '":')
    assert "lence" not in response.text
    assert "some" not in response.text
    receipt = await set_up.stage.receipt()
    assert receipt.usage.prompt_tokens == 5
    assert receipt.usage.completion_tokens > 0


async def test_a_stream_begins_before_the_answer_is_blocked(serve: Serve, tmp_path: Path) -> None:
    read = asyncio.Event()

    async def talk(worker: ScriptedWorker, job: Job) -> None:
        worker.begin(job, "a")
        worker.send_token(job, "a", 0, "Water turns ")
        worker.send_token(job, "a", 1, "the wheel. " * 10)
        await read.wait()
        worker.send_token(job, "a", 2, "violence.")
        await worker.cancel_of(job.id).wait()

    (tmp_path / "rules.toml").write_text(RULES)
    server = await serve(talk, moderation_rules=str(tmp_path / "rules.toml"))
    policies = server.stage.organisation.moderation_policies.policies
    policies["tenant-1", "project-1"] = ModerationPolicy(RULES_MODEL)
    stream = await server.client.chat.completions.create(model=MODEL, messages=HI, stream=True)
    seen = []
    async for chunk in stream:
        seen += [(choice.delta.content, choice.finish_reason) for choice in chunk.choices]
        if seen[-1][0]:
            read.set()
    assert seen == [("", None), ("Water turns ", None), (None, "content_filter")]
    assert (await server.stage.receipt()).usage.completion_tokens == 3


@pytest.mark.parametrize("model", [CLASSIFIER, RULES_MODEL])
async def test_invisible_characters_hide_no_word_of_an_answer(moderated: Any, model: str) -> None:
    set_up = await moderated(say("some ", *("\u200b" * 200).join("violence "), "end"))
    set_up.policy(model, prompts=False)
    choice = (await set_up.stage.chat()).json()["choices"][0]
    assert (choice["message"]["content"], choice["finish_reason"]) == ("", "content_filter")


@pytest.mark.parametrize("tokens", [("violence", "s ", "end"), ("non", "violence ", "end"), ("x" * 300, "violence")])
async def test_a_word_is_not_found_in_a_part_of_a_word(moderated: Any, tokens: tuple[str, ...]) -> None:
    set_up = await moderated(say(*tokens))
    set_up.policy(RULES_MODEL)
    choice = (await set_up.stage.chat()).json()["choices"][0]
    assert (choice["message"]["content"], choice["finish_reason"]) == ("".join(tokens), "stop")


async def test_the_rest_of_a_blocked_answer_is_not_generated(moderated: Any) -> None:
    async def talk(worker: ScriptedWorker, job: Job) -> None:
        worker.begin(job, "a")
        worker.send_token(job, "a", 0, "violence.")
        await worker.cancel_of(job.id).wait()

    set_up = await moderated(talk)
    set_up.policy(RULES_MODEL)
    response = await set_up.stage.chat()
    choice = response.json()["choices"][0]
    assert (choice["message"]["content"], choice["finish_reason"]) == ("", "content_filter")
    assert response.json()["usage"]["completion_tokens"] == 1
    (job,) = set_up.stage.worker.jobs
    await set_up.stage.worker.cancel_of(job.id).wait()
    receipt = await set_up.stage.receipt()
    assert (receipt.outcome, receipt.usage.completion_tokens) == (Outcome.CANCELLED, 1)


async def test_one_of_two_choices_is_blocked(moderated: Any) -> None:
    async def talk(worker: ScriptedWorker, job: Job) -> None:
        worker.begin(job, "a")
        for choice, text in ((0, "toxic"), (1, "fine")):
            ids: dict[str, Any] = {"job_id": job.id, "attempt_id": "a", "choice": choice}
            worker.send(job, Delta(**ids, start=0, token_ids=[0], text=text))
            worker.send(job, Delta(**ids, start=1, token_ids=[], finish_reason="stop"))
        worker.send(job, Finished(job_id=job.id, attempt_id="a", usage=Usage(prompt_tokens=5, completion_tokens=2)))

    set_up = await moderated(talk)
    set_up.policy()
    choices = (await set_up.stage.chat(n=2)).json()["choices"]
    assert [(each["message"]["content"], each["finish_reason"]) for each in choices] == [
        ("", "content_filter"),
        ("fine", "stop"),
    ]
    receipt = await set_up.stage.receipt()
    assert (receipt.outcome, receipt.usage.completion_tokens) == (Outcome.FINISHED, 2)


async def test_checks_by_a_classifier_are_a_part_of_the_bill(moderated: Any) -> None:
    set_up = await moderated(say(*(f"{word} " for word in HARMLESS.split())))
    set_up.policy()
    response = await set_up.stage.chat("Where is water?")
    assert response.json()["choices"][0]["message"]["content"].split() == HARMLESS.split()
    read = sum(len(each.prompt.candidates) for each in set_up.classifier.jobs)
    used = UsagePart(model=CLASSIFIER, usage=Usage(prompt_tokens=3 * read))
    assert response.json()["usage"]["parts"] == [
        {"model": CLASSIFIER, "prompt_tokens": used.usage.prompt_tokens, "completion_tokens": 0}
    ]
    receipt = await set_up.stage.receipt()
    assert receipt.parts == [used]
    assert receipt.reported is not None
    assert (receipt.reported.checks, receipt.reported.parts) == ((used,), ())
    (hold,) = set_up.stage.billing.held.values()
    (bound,) = hold.max_parts
    assert bound.model == CLASSIFIER
    assert bound.usage.prompt_tokens > used.usage.prompt_tokens
    (job,) = set_up.stage.worker.jobs
    assert [each.id for each in set_up.classifier.jobs] == [
        f"{job.id}-m{n}" for n in range(len(set_up.classifier.jobs))
    ]
    assert {(each.parent, each.depth, each.tenant) for each in set_up.classifier.jobs} == {(job.id, 1, "tenant-1")}


async def test_rules_cost_nothing(moderated: Any) -> None:
    set_up = await moderated()
    set_up.policy(RULES_MODEL)
    assert "parts" not in (await set_up.stage.chat()).json()["usage"]
    assert not set_up.classifier.jobs
    assert [*(await set_up.stage.receipt()).parts] == []


@pytest.mark.parametrize("stream", [False, True])
async def test_a_check_that_fails_refuses_the_prompt(moderated: Any, stream: bool) -> None:
    set_up = await moderated(classifier=fail(FailureCode.ENGINE_ERROR))
    set_up.policy()
    response = await set_up.stage.chat(stream=stream)
    assert (response.status_code, response.json()["error"]["code"]) == (503, "moderation_unavailable")
    assert response.headers["retry-after"]
    assert not set_up.stage.worker.jobs


async def test_a_check_that_fails_ends_the_answer(moderated: Any) -> None:
    set_up = await moderated(say("some ", "words"), classifier=fail(FailureCode.ENGINE_ERROR))
    set_up.policy(prompts=False)
    response = await set_up.stage.chat(stream=True)
    assert "moderation_unavailable" in response.text
    assert "words" not in response.text
    assert (await set_up.stage.receipt()).outcome is Outcome.FINISHED


@pytest.mark.parametrize("model", ["org/unknown", MODEL])
async def test_a_policy_whose_model_is_not_served(moderated: Any, model: str) -> None:
    set_up = await moderated()
    set_up.policy(model)
    assert (await set_up.stage.chat()).json()["error"]["code"] == "moderation_unavailable"


async def test_a_policy_that_is_not_known(moderated: Any) -> None:
    set_up = await moderated()
    set_up.stage.organisation.moderation_policies.absence.away = True
    assert (await set_up.stage.chat()).status_code == 503
    assert not set_up.stage.worker.jobs


async def test_a_client_that_leaves_during_a_check(moderated: Any) -> None:
    set_up = await moderated(start_and_wait, start_and_wait)
    set_up.policy(prompts=False)
    request = asyncio.create_task(set_up.stage.chat(stream=True))
    await set_up.stage.worker.received.wait()
    await asyncio.sleep(0.01)
    request.cancel()
    (job,) = set_up.stage.worker.jobs
    await set_up.stage.worker.cancel_of(job.id).wait()


async def test_checks_wait_for_their_turn_in_the_publish_queue(moderated: Any) -> None:
    set_up = await moderated(classifier=never)
    set_up.policy()
    capacity = set_up.stage.gateway.models.find(CLASSIFIER).capacity
    requests = [asyncio.create_task(set_up.stage.chat()) for _ in range(2 * capacity + 8)]
    queue = set_up.stage.gateway.publish_queue
    await eventually(lambda: queue.waiting > 0 and len(set_up.classifier.jobs) >= capacity)
    assert len(set_up.classifier.jobs) + queue.waiting <= len(requests)
    for request in requests:
        request.cancel()
    await eventually(lambda: queue.waiting == 0)
