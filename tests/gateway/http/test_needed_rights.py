"""Rights that a request with an idempotency key needs beyond its route's scope: read from its JSON, then checked."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from auth_billing.access.model_access import ALL_MODELS
from auth_billing.access.scopes import PROJECT_SCOPES, Scope
from gateway.http.needed_rights import NeededRights, needed_rights
from tests.gateway.conftest import HI, KEY, MODEL, SetStage

CHAT, RESPONSES, GENERATE = "/v1/chat/completions", "/v1/responses", "/api/generate"
SEARCH = {"type": "file_search", "vector_store_ids": ["vs_1", 7, "vs_2"]}


def said(*parts: Any) -> list[dict[str, Any]]:
    return [{"role": "user", "content": list(parts)}]


@pytest.mark.parametrize(
    ("path", "body", "needed"),
    [
        (CHAT, {"messages": HI}, NeededRights()),
        (CHAT, {"model": "m", "messages": HI}, NeededRights(models=("m",))),
        (CHAT, {"model": "m", "test_time_compute": {"verifier": "v"}}, NeededRights(models=("m", "v"))),
        (CHAT, {"messages": said({"type": "file", "file": {"file_id": "file-1"}})}, NeededRights((Scope.FILES,))),
        (CHAT, {"messages": said({"type": "file", "file": {"file_data": "aGk="}})}, NeededRights()),
        (CHAT, {"messages": said({"type": "image_url", "image_url": {"url": "file-1"}})}, NeededRights((Scope.FILES,))),
        (CHAT, {"messages": said({"type": "image_url", "image_url": {"url": "data:a"}})}, NeededRights()),
        (CHAT, {"messages": said({"type": "text", "text": "a", "file_id": "file-1"})}, NeededRights()),
        (RESPONSES, {"input": said({"type": "input_file", "file_id": "file-1"})}, NeededRights((Scope.FILES,))),
        (RESPONSES, {"input": said({"type": "input_image", "image_url": "file-1"})}, NeededRights((Scope.FILES,))),
        (RESPONSES, {"input": [{"output": [{"type": "input_file", "file_id": "f"}]}]}, NeededRights((Scope.FILES,))),
        (
            RESPONSES,
            {"input": "hi", "tools": [{"type": "function"}, SEARCH]},
            NeededRights((Scope.FILES, Scope.EMBEDDINGS), stores=("vs_1", "vs_2")),
        ),
        (GENERATE, {"prompt": "hi", "raw": True}, NeededRights((Scope.COMPLETIONS,))),
        (GENERATE, {"prompt": "hi", "suffix": "ho"}, NeededRights((Scope.COMPLETIONS,))),
        (GENERATE, {"prompt": "", "raw": True}, NeededRights()),
        (CHAT, {"prompt": "hi", "raw": True}, NeededRights()),
        ("/v1/moderations", {"input": "hi"}, NeededRights(moderates=True)),
        ("/v1/moderations", {"input": "hi", "model": "m"}, NeededRights(moderates=True, classifier="m")),
        (CHAT, [], NeededRights()),
        (CHAT, {"model": 7, "messages": 7, "tools": [7, {"type": "file_search"}]}, None),
    ],
)
def test_rights_that_a_request_needs(path: str, body: Any, needed: NeededRights | None) -> None:
    assert needed_rights(path, body) == (needed or NeededRights((Scope.FILES, Scope.EMBEDDINGS)))


async def test_an_answer_is_not_repeated_to_a_key_that_lost_a_scope(set_stage: SetStage) -> None:
    """H72."""
    stage = await set_stage()
    full = replace(await stage.accounts.authenticate(KEY), key_id="key-3")
    name, headers = "hr_live_changed", {"authorization": "Bearer hr_live_changed", "idempotency-key": "k"}
    body = {"model": MODEL, "prompt": "hi", "raw": True, "stream": False}
    stage.accounts.added[name] = full
    first = await stage.client.post(GENERATE, json=body, headers=headers)
    assert first.status_code == 200, first.text
    stage.accounts.added[name] = replace(full, scopes=PROJECT_SCOPES - {Scope.COMPLETIONS})
    assert (await stage.client.post(GENERATE, json=body, headers=headers)).status_code == 403
    stage.accounts.added[name] = full
    assert (await stage.client.post(GENERATE, json=body, headers=headers)).content == first.content
    assert len(stage.worker.jobs) == 1


@pytest.mark.parametrize("model", [None, "moderation-rules"])
async def test_the_operators_rules_are_no_model_of_a_keys_list(
    set_stage: SetStage, tmp_path: Any, model: str | None
) -> None:
    rules = tmp_path / "rules.toml"
    rules.write_text('[categories.violence]\nwords = ["violence"]\n')
    stage = await set_stage(moderation_rules=str(rules))
    stage.accounts.added["hr_live_listed"] = replace(
        await stage.accounts.authenticate(KEY), key_id="key-3", models=ALL_MODELS.restricted_to(frozenset({MODEL}))
    )
    headers = {"authorization": "Bearer hr_live_listed", "idempotency-key": "k"}
    for _ in range(2):
        answer = await stage.client.post("/v1/moderations", json={"input": "a", "model": model}, headers=headers)
        assert answer.status_code == 200, answer.text
