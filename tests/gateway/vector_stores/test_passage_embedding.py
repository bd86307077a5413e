"""Embedding in the background: a busy service is asked again for a minute, then the import has to wait."""

from __future__ import annotations

import asyncio
import json
from dataclasses import dataclass, field
from typing import Any

import pytest
from starlette.datastructures import Headers

from gateway.http.internal_requests import MAX_TRIES, InternalAnswer
from gateway.vector_stores import passage_embedding
from gateway.vector_stores.passage_embedding import BUSY_TIME, EmbeddingBusy, EmbeddingRefused, embed

VECTORS = InternalAnswer(200, Headers({}), json.dumps({"data": [{"embedding": "AACAPw=="}]}).encode())


@dataclass
class Service:
    """Answers requests by a list whose last entry is repeated, and records the seconds of all waits."""

    answers: list[InternalAnswer] = field(default_factory=list)
    waits: list[float] = field(default_factory=list)

    async def request(self, *_: Any) -> InternalAnswer:
        return self.answers.pop(0) if len(self.answers) > 1 else self.answers[0]

    async def sleep(self, seconds: float) -> None:
        self.waits.append(seconds)


@pytest.fixture
def service(monkeypatch: pytest.MonkeyPatch) -> Service:
    made = Service()
    monkeypatch.setattr(passage_embedding, "request_internally", made.request)
    monkeypatch.setattr(asyncio, "sleep", made.sleep)
    return made


def answer(status: int, **headers: str) -> InternalAnswer:
    return InternalAnswer(status, Headers({key.replace("_", "-"): value for key, value in headers.items()}), b"{}")


async def embedded(service: Service, *answers: InternalAnswer) -> list[bytes]:
    service.answers = list(answers)
    return await embed(None, None, "org/embedder", ["a"], "key")  # type: ignore[arg-type]


@pytest.mark.parametrize("status", [408, 409, 429, 503])
async def test_a_service_that_stays_busy_is_asked_for_a_minute(service: Service, status: int) -> None:
    with pytest.raises(EmbeddingBusy):
        await embedded(service, answer(status))
    assert 0 < sum(service.waits) <= BUSY_TIME


async def test_vectors_that_another_gateway_has_stored_end_this_try(service: Service) -> None:
    body = json.dumps({"error": {"code": "idempotent_answer_not_kept", "message": "It was not kept."}}).encode()
    with pytest.raises(EmbeddingBusy):
        await embedded(service, InternalAnswer(409, Headers({"x-should-retry": "false"}), body))


async def test_a_busy_service_is_asked_again(service: Service) -> None:
    assert await embedded(service, answer(429, retry_after="5"), answer(503), VECTORS) == [b"\0\0\x80\x3f"]
    assert service.waits == [5.0, 1.0]


async def test_an_error_of_the_service_is_a_refusal_in_the_end(service: Service) -> None:
    with pytest.raises(EmbeddingRefused):
        await embedded(service, answer(500))
    assert len(service.waits) == MAX_TRIES - 1
