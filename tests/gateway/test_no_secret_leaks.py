"""I9: an API key is in no log line, message, response or error, however its request ends."""

from __future__ import annotations

import logging as standard_logging
from dataclasses import replace
from typing import Any

import pytest

from auth_billing.errors import StoreUnavailable
from auth_billing.keys import key_format
from auth_billing.keys.key_issuance import KeySpec, issue
from router.messages import KeySet, encode
from runtime import logging
from tests.fakes.scripted_worker import count
from tests.gateway.conftest import PEPPER, SetStage, Stage


async def key_of(stage: Stage) -> key_format.ApiKey:
    issued = await issue(
        stage.accounts.store, PEPPER, organisation="acme", project="proj", spec=KeySpec("k"), user="", now=1.0
    )
    return issued.key


@pytest.mark.usefixtures("restored_logging")
async def test_a_key_appears_nowhere_but_in_its_request(
    set_stage: SetStage, capsys: pytest.CaptureFixture[str]
) -> None:
    logging.configure("gateway", level="debug")
    standard_logging.getLogger().setLevel(standard_logging.DEBUG)  # the most that libraries would say
    stage = await set_stage(count)
    key = await key_of(stage)
    told: list[str] = []

    async def ask(method: str, path: str, text: str, **content: Any) -> int:
        headers = {"authorization": f"Bearer {text}"}
        answer = await stage.client.request(method, path, headers=headers, **content)
        told.append(f"{answer.headers} {answer.text}")
        return answer.status_code

    chat = {"model": "org/counting-model", "messages": [{"role": "user", "content": "hi"}]}
    assert await ask("POST", "/v1/chat/completions", key.text, json=chat) == 200
    assert await ask("POST", "/v1/chat/completions", key.text, json={**chat, "stream": True}) == 200
    assert await ask("POST", "/v1/chat/completions", key.text, json={**chat, "model": "none"}) == 404
    assert await ask("POST", "/v1/chat/completions", key.text, content=b"{") in (400, 415)
    assert await ask("GET", f"/v1/models?api_key={key.text}", key.text) == 200
    assert await ask("GET", f"/v1/{key.key_id}", key.text) == 404
    assert await ask("GET", "/v1/models", key.text[:-1] + "?") == 401
    wrong = key_format.ApiKey(key.key_id, key_format.generate().secret)
    assert await ask("GET", "/v1/models", wrong.text) == 401

    async def away(key_id: str) -> None:
        raise StoreUnavailable("connection refused")

    async def broken(key_id: str) -> None:
        raise RuntimeError(f"a bug that names {key.text}")

    for find, status in ((away, 503), (broken, 500)):
        stage.accounts.store.find = find  # type: ignore[method-assign]
        stage.accounts.cache.invalidate(KeySet())
        assert await ask("GET", "/v1/models", key.text) == status

    said = capsys.readouterr().err
    assert "a bug that names hr_live_***" in said  # it did log, and masked
    messages = " ".join(encode(job).decode() for job in stage.worker.jobs)
    for secret in (key.secret, wrong.secret):
        assert secret not in said
        assert secret not in " ".join(told)
        assert secret not in messages


async def test_a_stored_key_and_its_errors_do_not_show_it(set_stage: SetStage) -> None:
    stage = await set_stage()
    key = await key_of(stage)
    (record,) = stage.accounts.store.records.values()
    assert key.secret not in repr(record)
    assert key.secret not in repr(key)
    assert str(record.digest) not in repr(replace(record, name="other"))
    assert key.secret not in repr(await stage.accounts.authenticate(key.text))
