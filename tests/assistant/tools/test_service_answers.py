"""Answers and errors of outside services as errors of tools, in plain words."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any

import msgspec
import pytest

from assistant.tools.http_client import HttpClient
from assistant.tools.service_answers import ask
from assistant.tools.tool import Refused, ToolError, Unavailable
from tests.fakes.recording_service import PERMITTED, RecordingService


class Number(msgspec.Struct):
    number: float


@pytest.fixture
async def service() -> AsyncIterator[RecordingService]:
    service = RecordingService(**{"/": lambda query: (200, {"number": 1, "more": query})})
    async with service.running():
        yield service


async def asked(service: RecordingService) -> Number:
    http = HttpClient(permitted_networks=[PERMITTED])
    try:
        return await ask(http, "Numbers", f"{service.url}/", {"key": "secret"}, Number)
    finally:
        await http.close()


async def test_answers_are_typed(service: RecordingService) -> None:
    assert await asked(service) == Number(1.0)
    assert service.asked[0].query == {"key": "secret"}


@pytest.mark.parametrize(
    ("failure", "error", "words"),
    [
        ((401, {"cod": 401}), Refused, "key"),
        ((403, b"no"), Refused, "key"),
        ((429, {}), Unavailable, "no more questions"),
        ((500, b"<html>"), Unavailable, "status 500"),
        ((404, {}), Unavailable, "status 404"),
        ((200, {"number": "one"}), Unavailable, "can't be read"),
        ((200, [1]), Unavailable, "can't be read"),
        ((200, {"number": None}), Unavailable, "can't be read"),
    ],
)
async def test_failures(service: RecordingService, failure: Any, error: type[ToolError], words: str) -> None:
    service.failure = failure
    with pytest.raises(error) as raised:
        await asked(service)
    assert words in raised.value.message("en")
    assert "Numbers" in raised.value.message("pl")
    assert "secret" not in raised.value.message("en") + repr(raised.value)
