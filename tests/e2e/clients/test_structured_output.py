"""Answers of a schema by OpenAI's Python SDK, against the whole platform."""

from __future__ import annotations

from typing import Any, Literal

import openai
import pytest
from pydantic import BaseModel

from tests.e2e.clients.conftest import Service
from tests.e2e.launcher_process import MODEL

pytestmark = [pytest.mark.e2e, pytest.mark.model, pytest.mark.store]


class City(BaseModel):
    name: Literal["Paris", "Rome"]
    warm: bool


ASK: Any = [{"role": "user", "content": "What is the capital of France? Is it warm there?"}]
ASKED: Any = {"model": MODEL, "messages": ASK, "temperature": 0, "max_tokens": 200, "response_format": City}


def test_parse(client: openai.OpenAI) -> None:
    answer = client.chat.completions.parse(**ASKED)
    assert isinstance(answer.choices[0].message.parsed, City)
    assert answer.choices[0].finish_reason == "stop"


def test_parse_streamed(client: openai.OpenAI) -> None:
    with client.chat.completions.stream(**ASKED) as stream:
        done = [event.parsed for event in stream if event.type == "content.done"]
        final = stream.get_final_completion()
    assert isinstance(final.choices[0].message.parsed, City)
    assert done == [final.choices[0].message.parsed]


async def test_parse_async(service: Service) -> None:
    async with service.async_client() as client:
        answer = await client.chat.completions.parse(**ASKED)
    assert isinstance(answer.choices[0].message.parsed, City)
