"""`/v1/batches`: files of requests answered in the background, line by line, billed once, visible to their project."""

from __future__ import annotations

import asyncio
import json
from typing import Any

import httpx
import pytest

from auth_billing.access.principal import Principal
from auth_billing.access.scopes import PROJECT_SCOPES, Scope
from router.messages import ServiceClass
from tests.fakes.batches import DictBatchStore
from tests.gateway.conftest import HI, MODEL, OTHER_KEY, Serve, SetStage, Stage, eventually, gateway_beside
from tests.gateway.http.routes.test_files import error_of

ENDED = {"completed", "failed", "expired", "cancelled"}
CHAT = "/v1/chat/completions"


def line(number: int, endpoint: str = CHAT, **body: Any) -> dict[str, Any]:
    request = {"model": MODEL, "messages": HI, "max_tokens": 3, **body}
    return {"custom_id": f"line-{number}", "method": "POST", "url": endpoint, "body": request}


def jsonl(lines: list[Any]) -> bytes:
    return b"".join(json.dumps(each).encode() + b"\n" for each in lines)


async def upload(stage: Stage, content: bytes, purpose: str = "batch") -> str:
    response = await stage.client.post("/v1/files", data={"purpose": purpose}, files={"file": ("in.jsonl", content)})
    id: str = response.json()["id"]
    return id


async def create(stage: Stage, lines: list[Any] | bytes, endpoint: str = CHAT, **fields: Any) -> dict[str, Any]:
    file = await upload(stage, lines if isinstance(lines, bytes) else jsonl(lines))
    body = {"input_file_id": file, "endpoint": endpoint, "completion_window": "24h", **fields}
    response = await stage.client.post("/v1/batches", json=body)
    assert response.status_code == 200, response.text
    batch: dict[str, Any] = response.json()
    return batch


async def ended(client: httpx.AsyncClient, id: str) -> dict[str, Any]:
    async with asyncio.timeout(60):
        while True:
            batch: dict[str, Any] = (await client.get(f"/v1/batches/{id}")).json()
            if batch["status"] in ENDED:
                return batch
            await asyncio.sleep(0.02)


async def results(client: httpx.AsyncClient, file_id: str | None) -> dict[str, dict[str, Any]]:
    """The lines of a result file by custom id."""
    if file_id is None:
        return {}
    content = (await client.get(f"/v1/files/{file_id}/content")).content
    lines = [json.loads(each) for each in content.splitlines()]
    assert len({each["id"] for each in lines}) == len(lines)
    by_id = {each["custom_id"]: each for each in lines}
    assert len(by_id) == len(lines), "a line has two results"
    return by_id


def batches_of(stage: Stage) -> DictBatchStore:
    batches = stage.gateway.documents.batches
    assert isinstance(batches, DictBatchStore)
    return batches


async def test_a_batch_answers_its_lines_and_lists_errors(set_stage: SetStage) -> None:
    stage = await set_stage()
    lines = [
        *(line(number) for number in range(5)),
        line(5, temperature=9),
        line(6, model="unknown"),
        line(7, stream=True),
    ]
    created = await create(
        stage, lines, metadata={"for": "test"}, output_expires_after={"anchor": "created_at", "seconds": 3600}
    )
    assert created["status"] == "validating"
    assert created["metadata"] == {"for": "test"}
    assert created["input_file_name"] == "in.jsonl"
    batch = await ended(stage.client, created["id"])
    assert batch["status"] == "completed", batch
    assert batch["request_counts"] == {"total": 8, "completed": 5, "failed": 3}
    assert (batch["model"], batch["errors"]) == (MODEL, None)
    assert batch["usage"]["output_tokens"] == 15
    assert batch["created_at"] <= batch["in_progress_at"] <= batch["finalizing_at"] <= batch["completed_at"]
    answers = await results(stage.client, batch["output_file_id"])
    assert answers.keys() == {f"line-{number}" for number in range(5)}
    answer = answers["line-3"]
    assert answer["error"] is None
    assert answer["response"]["status_code"] == 200
    assert answer["response"]["request_id"].startswith("req_")
    assert answer["response"]["body"]["object"] == "chat.completion"
    errors = await results(stage.client, batch["error_file_id"])
    assert {id: each["response"]["body"]["error"]["code"] for id, each in errors.items()} == {
        "line-5": "invalid_value",
        "line-6": "model_not_found",
        "line-7": "unsupported_parameter",
    }
    file = (await stage.client.get(f"/v1/files/{batch['output_file_id']}")).json()
    assert (file["purpose"], file["filename"]) == ("batch_output", f"{batch['id']}_output.jsonl")
    assert file["expires_at"] == file["created_at"] + 3600
    assert {job.service_class for job in stage.worker.jobs} == {ServiceClass.FLEX}
    await eventually(lambda: len(stage.receipts) == 5)


async def test_openais_client_runs_a_batch_through_the_other_gateway(serve: Serve) -> None:
    server = await serve()
    client = server.client
    file = await client.files.create(file=("in.jsonl", jsonl([line(1)])), purpose="batch")
    batch = await client.batches.create(input_file_id=file.id, endpoint="/v1/chat/completions", completion_window="24h")
    async with gateway_beside(server.stage) as (_, other):
        done = await ended(other, batch.id)
        assert (await results(other, done["output_file_id"])).keys() == {"line-1"}
    assert [each.id async for each in client.batches.list(limit=1)] == [batch.id]
    assert (await client.batches.retrieve(batch.id)).status == "completed"


@pytest.mark.parametrize(
    ("content", "code", "number"),
    [
        (b'{"custom_id": "1"}\nno json\n', "invalid_method", 1),
        (b"no json\n", "invalid_json_line", 1),
        (b"[]\n", "invalid_json_line", 1),
        (jsonl([line(1), line(2), line(1)]), "duplicate_custom_id", 3),
        (jsonl([line(1), line(2, "/v1/completions")]), "mismatched_endpoint", 2),
        (jsonl([{**line(1), "custom_id": ""}]), "invalid_custom_id", 1),
        (jsonl([{**line(1), "body": "x"}]), "missing_required_parameter", 1),
        (b"\n \n", "empty_file", None),
    ],
    ids=["method", "json", "array", "duplicate", "endpoint", "custom-id", "body", "empty"],
)
async def test_a_malformed_file_fails_before_any_line_runs(
    set_stage: SetStage, content: bytes, code: str, number: int | None
) -> None:
    stage = await set_stage()
    batch = await ended(stage.client, (await create(stage, content))["id"])
    assert batch["status"] == "failed"
    assert batch["errors"]["data"][0].items() >= {"code": code, "line": number}.items()
    assert batch["request_counts"]["total"] == 0
    assert (batch["output_file_id"], batch["error_file_id"]) == (None, None)
    assert stage.worker.jobs == []


async def test_what_can_not_become_a_batch_is_refused(set_stage: SetStage) -> None:
    stage = await set_stage()
    file, other = await upload(stage, jsonl([line(1)])), await upload(stage, b"x", "user_data")
    good = {"input_file_id": file, "endpoint": CHAT, "completion_window": "24h"}
    for change, param in (
        ({"input_file_id": "file-" + "a" * 24}, "input_file_id"),
        ({"input_file_id": other}, "input_file_id"),
        ({"endpoint": "/v1/files"}, "endpoint"),
        ({"completion_window": "1h"}, "completion_window"),
        ({"metadata": {"a": 1}}, "metadata.a"),
    ):
        status, _, named = error_of(await stage.client.post("/v1/batches", json={**good, **change}))
        assert (status, named) == (400, param)
    assert batches_of(stage).records == {}


async def test_keys_need_the_scopes_of_batches_and_of_their_lines(set_stage: SetStage) -> None:
    stage = await set_stage()
    file = await upload(stage, jsonl([line(1)]))
    for missing in (Scope.BATCHES, Scope.CHAT_COMPLETIONS):
        principal = Principal("key-5", "tenant-1", "salt", project="project-1", scopes=PROJECT_SCOPES - {missing})
        stage.accounts.added["hr_live_limited"] = principal
        response = await stage.client.post(
            "/v1/batches",
            json={"input_file_id": file, "endpoint": CHAT, "completion_window": "24h"},
            headers={"authorization": "Bearer hr_live_limited"},
        )
        assert error_of(response) == (403, "missing_scope", None)


async def test_other_projects_find_no_batch(set_stage: SetStage) -> None:
    stage = await set_stage()
    id = (await create(stage, [line(1)]))["id"]
    await ended(stage.client, id)
    headers = {"authorization": f"Bearer {OTHER_KEY}"}
    for each in (id, "batch_unknown"):
        for response in (
            await stage.client.get(f"/v1/batches/{each}", headers=headers),
            await stage.client.post(f"/v1/batches/{each}/cancel", headers=headers),
        ):
            assert error_of(response) == (404, "not_found", None)
            assert response.json()["error"]["message"] == f"No object with the id '{each}' was found."
        after = await stage.client.get(f"/v1/batches?after={each}", headers=headers)
        assert (after.status_code, after.json()["error"]["param"]) == (400, "after")
    assert (await stage.client.get("/v1/batches", headers=headers)).json()["data"] == []
    assert [each["id"] for each in (await stage.client.get("/v1/batches")).json()["data"]] == [id]


async def test_a_cancelled_batch_keeps_what_is_done(set_stage: SetStage) -> None:
    stage = await set_stage()
    created = await create(stage, [line(number) for number in range(30)])
    id = created["id"]
    cancelled = (await stage.client.post(f"/v1/batches/{id}/cancel")).json()
    assert cancelled["status"] in ("cancelling", "cancelled")
    batch = await ended(stage.client, id)
    assert batch["status"] == "cancelled"
    assert batch["cancelling_at"] is not None
    answers = await results(stage.client, batch["output_file_id"])
    errors = await results(stage.client, batch["error_file_id"])
    assert len(answers) + len(errors) in (0, 30)  # 0: it was cancelled before its lines were counted
    assert {each["error"]["code"] for each in errors.values()} <= {"batch_cancelled"}
    assert error_of(await stage.client.post(f"/v1/batches/{id}/cancel")) == (400, "invalid_value", "batch_id")
