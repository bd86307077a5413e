"""Chat completions with `test_time_compute` at a gateway: refusals, steps, and a bill of what was delivered."""

from __future__ import annotations

import asyncio
from typing import Any

import msgspec
import pytest

from auth_billing.access.model_access import ModelAccess, ModelPolicy, PolicyMode
from auth_billing.access.principal import Principal
from auth_billing.access.scopes import Scope
from auth_billing.errors import NoPrice
from router.messages import ChatPrompt, Outcome, Task, Usage, UsagePart
from tests.fakes.scripted_worker import search, search_and_wait, status
from tests.gateway.conftest import HI, MODEL, VERIFIER, Serve, SetStage, Stage, announce_searches, eventually, reset
from tests.gateway.http.routes.test_chat_completions import frames

BEAM = {"method": "beam_search", "verifier": VERIFIER, "n": 2, "expansions": 2, "budget_tokens": 300}
PARTS = [
    {"model": MODEL, "prompt_tokens": 0, "completion_tokens": 24},
    {"model": VERIFIER, "prompt_tokens": 81, "completion_tokens": 0},
]
"""What the two steps of `search` used."""


async def searching(set_stage: SetStage, **settings: Any) -> Stage:
    stage = await set_stage(search, **settings)
    await announce_searches(stage)
    return stage


def parts(generated: int, read: int) -> list[UsagePart]:
    return [
        UsagePart(model=MODEL, usage=Usage(prompt_tokens=0, completion_tokens=generated)),
        UsagePart(model=VERIFIER, usage=Usage(prompt_tokens=read)),
    ]


async def test_a_whole_answer_has_the_steps_of_its_search_and_costs_them(set_stage: SetStage) -> None:
    stage = await searching(set_stage)
    body = (await stage.chat(test_time_compute=BEAM)).json()
    assert body["choices"][0]["message"]["content"] == "42"
    assert [(each["kind"], each["name"], each["state"]) for each in body["choices"][0]["message"]["steps"]] == [
        ("search", "beam_search", "done")
    ] * 2
    assert (body["usage"]["completion_tokens"], body["usage"]["parts"]) == (2, PARTS)
    receipt = await stage.receipt()
    assert (receipt.usage.completion_tokens, receipt.parts, receipt.outcome) == (2, parts(24, 81), Outcome.FINISHED)
    held = stage.billing.held[receipt.job]
    assert list(held.max_parts) == parts(300, 300)


async def test_a_stream_has_a_chunk_for_each_step_before_the_text(set_stage: SetStage) -> None:
    stage = await searching(set_stage)
    answer = await stage.chat(test_time_compute=BEAM, stream=True, stream_options={"include_usage": True})
    *chunks, last = frames(answer.text)
    steps = [each for chunk in chunks for each in chunk["choices"][0]["delta"].get("steps", [])]
    assert [(each["number"], each["state"]) for each in steps] == [
        (0, "running"),
        (0, "done"),
        (1, "running"),
        (1, "done"),
    ]
    assert "".join(chunk["choices"][0]["delta"].get("content") or "" for chunk in chunks) == "42"
    assert last["usage"]["parts"] == PARTS


async def test_openais_client_sends_and_reads_a_search(serve: Serve) -> None:
    server = await serve(search)
    await announce_searches(server.stage)
    answer = await server.client.chat.completions.create(
        model=MODEL, messages=HI, extra_body={"test_time_compute": BEAM}
    )
    assert answer.choices[0].message.content == "42"
    assert [each["kind"] for each in (answer.choices[0].message.model_extra or {})["steps"]] == ["search"] * 2
    assert answer.usage is not None
    assert (answer.usage.model_extra or {})["parts"] == PARTS


@pytest.mark.parametrize("stream", [False, True])
async def test_a_repeated_request_is_searched_and_billed_once(set_stage: SetStage, stream: bool) -> None:
    stage = await searching(set_stage)
    body = {"model": MODEL, "messages": HI, "test_time_compute": BEAM, "stream": stream}
    headers = {"idempotency-key": "k"}
    first, again = [await stage.client.post("/v1/chat/completions", json=body, headers=headers) for _ in range(2)]
    assert (first.status_code, again.headers["idempotent-replayed"]) == (200, "true")
    assert first.content == again.content
    assert (await stage.receipt()).parts == parts(24, 81)
    assert len(stage.worker.jobs) == 1
    other = {**body, "test_time_compute": {**BEAM, "n": 1}}
    reused = await stage.client.post("/v1/chat/completions", json=other, headers=headers)
    assert reused.json()["error"]["code"] == "idempotency_key_reused"


@pytest.mark.parametrize("stream", [False, True])
async def test_a_client_that_leaves_pays_for_the_confirmed_steps(serve: Serve, stream: bool) -> None:
    server = await serve(search_and_wait)
    await announce_searches(server.stage)
    _, writer = await server.post(stream=stream, test_time_compute=BEAM)
    checkpoints = server.stage.billing.checkpoints
    await eventually(lambda: any(usage.parts for each in checkpoints for usage in each.values()))
    reset(writer)
    receipt = await server.stage.receipt()
    assert (receipt.usage, receipt.parts) == (Usage(prompt_tokens=0), parts(12, 40))
    assert receipt.outcome is Outcome.CANCELLED
    await asyncio.wait_for(server.stage.worker.cancel_of(receipt.job).wait(), 5)


async def test_a_search_without_verifier_holds_and_costs_the_model_alone(set_stage: SetStage) -> None:
    stage = await searching(set_stage)
    answer = await stage.chat(test_time_compute={"method": "self_consistency", "budget_tokens": 30})
    assert answer.json()["usage"]["parts"] == [PARTS[0]]
    receipt = await stage.receipt()
    assert list(stage.billing.held[receipt.job].max_parts) == parts(30, 0)[:1]


async def test_a_faulty_worker_costs_no_more_than_the_budget(set_stage: SetStage) -> None:
    stage = await searching(set_stage)
    await stage.chat(test_time_compute={**BEAM, "budget_tokens": 20})
    assert (await stage.receipt()).parts == parts(20, 20)


# Refusals


async def refused(stage: Stage, **search_fields: Any) -> tuple[int, str, str]:
    answer = await stage.chat(test_time_compute={**BEAM, **search_fields})
    error = answer.json()["error"]
    assert not stage.worker.jobs
    assert not stage.billing.held
    return answer.status_code, error["code"], error["param"]


async def test_a_template_is_put_before_the_conversation(set_stage: SetStage) -> None:
    stage = await searching(set_stage)
    answer = await stage.chat(test_time_compute={**BEAM, "template": "qwen2.5_math"})
    assert answer.status_code == 200
    [job] = stage.worker.jobs
    assert isinstance(job.prompt, ChatPrompt)
    assert [message["role"] for message in job.prompt.messages] == ["system", *(each["role"] for each in HI)]
    assert "\\boxed{}" in job.prompt.messages[0]["content"]


async def test_a_model_whose_workers_do_not_search_refuses(set_stage: SetStage) -> None:
    stage = await set_stage()
    assert await refused(stage) == (400, "invalid_value", "test_time_compute")
    listed = (await stage.client.get("/v1/models")).json()["data"]
    assert [each.get("test_time_compute") for each in listed] == [None]


async def test_models_that_search_are_listed(set_stage: SetStage) -> None:
    stage = await searching(set_stage)
    listed = (await stage.client.get("/v1/models")).json()["data"]
    assert {each["id"]: each.get("test_time_compute") for each in listed} == {MODEL: True, VERIFIER: None}


async def test_a_verifier_must_be_a_served_model_that_scores(set_stage: SetStage) -> None:
    stage = await searching(set_stage)
    assert await refused(stage, verifier="org/unknown") == (404, "model_not_found", "test_time_compute.verifier")
    assert await refused(stage, verifier=MODEL) == (400, "invalid_value", "test_time_compute.verifier")
    stage.worker.bus.send_status(status("embedder", "worker-3", task=Task.EMBED))
    await eventually(lambda: stage.gateway.models.find("embedder") is not None)
    assert await refused(stage, verifier="embedder") == (400, "invalid_value", "test_time_compute.verifier")


async def test_another_chat_model_may_grade_the_paths_and_its_grades_are_held(set_stage: SetStage) -> None:
    stage = await searching(set_stage)
    stage.worker.bus.send_status(status("judge", "worker-3", searches=True))
    await eventually(lambda: stage.gateway.models.find("judge") is not None)
    assert (await stage.chat(test_time_compute={**BEAM, "verifier": "judge", "max_steps": 3})).status_code == 200
    [job] = stage.worker.jobs
    assert job.search is not None
    assert (job.search.verifier, job.search.judge) == ("judge", True)
    held = stage.billing.held[(await stage.receipt()).job]
    assert list(held.max_parts) == [
        UsagePart(model=MODEL, usage=Usage(prompt_tokens=0, completion_tokens=300)),
        UsagePart(model="judge", usage=Usage(prompt_tokens=300, completion_tokens=2 * 2 * 3)),
    ]


async def test_a_verifier_must_read_conversations(set_stage: SetStage) -> None:
    stage = await searching(set_stage)
    reranker = msgspec.structs.replace(status("reranker", "worker-3", task=Task.SCORE), scores_pairs=True)
    stage.gateway.models.observe(reranker)
    assert await refused(stage, verifier="reranker") == (400, "invalid_value", "test_time_compute.verifier")


async def test_a_verifier_without_a_live_worker_is_unavailable(set_stage: SetStage) -> None:
    stage = await searching(set_stage)
    now = stage.gateway.models._clock()
    stage.gateway.models._clock = lambda: now + 120
    stage.gateway.models.observe(status(MODEL, searches=True))
    assert await refused(stage) == (503, "model_unavailable", "test_time_compute.verifier")


@pytest.mark.parametrize(
    "policy",
    [
        ModelPolicy(PolicyMode.DENY, frozenset({VERIFIER})),
        ModelPolicy(PolicyMode.ALLOW, frozenset({MODEL})),
    ],
)
async def test_a_verifier_that_the_caller_may_not_use_is_not_found(set_stage: SetStage, policy: ModelPolicy) -> None:
    stage = await searching(set_stage)
    stage.accounts.added["hr_live_limited"] = Principal("key-3", "tenant-1", "salt", models=ModelAccess((policy,)))
    stage.client.headers["authorization"] = "Bearer hr_live_limited"
    assert await refused(stage) == (404, "model_not_found", "test_time_compute.verifier")


async def test_a_verifier_needs_no_scope_of_its_own(set_stage: SetStage) -> None:
    """A scope is for routes, and a search is a chat completion; which models score follows from model access."""
    stage = await searching(set_stage)
    scopes = frozenset({Scope.CHAT_COMPLETIONS})
    stage.accounts.added["hr_live_chat"] = Principal("key-4", "tenant-1", "salt", scopes=scopes)
    stage.client.headers["authorization"] = "Bearer hr_live_chat"
    assert (await stage.chat(test_time_compute=BEAM)).json()["usage"]["parts"] == PARTS
    refusal = await stage.client.post("/v1/score", json={"model": VERIFIER, "text_1": "a", "text_2": "b"})
    assert (refusal.status_code, refusal.json()["error"]["code"]) == (403, "missing_scope")


async def test_a_verifier_is_found_by_its_alias(set_stage: SetStage, tmp_path: Any) -> None:
    aliases = tmp_path / "aliases.toml"
    aliases.write_text(f'[aliases]\nprm = "{VERIFIER}"\n')
    stage = await searching(set_stage, model_aliases=str(aliases))
    assert (await stage.chat(test_time_compute={**BEAM, "verifier": "prm"})).json()["usage"]["parts"] == PARTS


async def test_a_verifier_without_a_price_is_refused(set_stage: SetStage) -> None:
    stage = await searching(set_stage)
    stage.billing.refusal = NoPrice(VERIFIER)
    assert await refused(stage) == (503, "model_unavailable", None)


async def test_the_operator_limits_the_budget(set_stage: SetStage) -> None:
    stage = await searching(set_stage, max_search_tokens=256)
    assert await refused(stage, budget_tokens=257) == (400, "invalid_value", "test_time_compute.budget_tokens")
    assert (await stage.chat(test_time_compute={**BEAM, "budget_tokens": None})).status_code == 200
    assert stage.worker.jobs[0].search.budget_tokens == 256  # type: ignore[union-attr]


async def test_prompts_with_images_are_not_searched(set_stage: SetStage) -> None:
    stage = await searching(set_stage)
    stage.worker.bus.send_status(status(MODEL, searches=True, reads_images=True))
    await eventually(lambda: stage.gateway.models.find(MODEL).reads_images)  # type: ignore[union-attr]
    image = [{"type": "image_url", "image_url": {"url": "data:image/png;base64,AAAA"}}]
    body = {"model": MODEL, "messages": [{"role": "user", "content": image}], "test_time_compute": BEAM}
    error = (await stage.client.post("/v1/chat/completions", json=body)).json()["error"]
    assert (error["code"], error["param"]) == ("invalid_value", "messages[0].content[0].image_url")
    assert "test_time_compute" in error["message"]


async def test_one_worker_that_does_not_search_is_enough_to_refuse(set_stage: SetStage) -> None:
    stage = await searching(set_stage)
    stage.gateway.models.observe(status(MODEL, "worker-3"))
    assert await refused(stage) == (400, "invalid_value", "test_time_compute")


async def test_models_of_other_tasks_are_refused_by_their_name(set_stage: SetStage) -> None:
    stage = await searching(set_stage)
    stage.gateway.models.observe(msgspec.structs.replace(status("embedder", "worker-4", task=Task.EMBED), dimensions=4))
    body = {"model": "embedder", "messages": HI, "test_time_compute": BEAM}
    error = (await stage.client.post("/v1/chat/completions", json=body)).json()["error"]
    assert error["param"] == "model"
