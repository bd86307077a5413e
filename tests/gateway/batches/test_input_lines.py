"""Lines of input files: split at every piece of the file, numbered, checked as OpenAI's Batch API does."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from typing import Any

import pytest

from gateway.batches.input_lines import MAX_CUSTOM_ID, InputLine, LineRefused, check_lines, parse_line, read_lines
from stored_objects.project_documents.batches import BatchError

URL = "/v1/embeddings"
GOOD: dict[str, Any] = {"custom_id": "a", "method": "POST", "url": URL, "body": {"model": "m", "input": "x"}}


async def lines_of(content: bytes, size: int, max_body_bytes: int = 100_000) -> list[InputLine]:
    async def chunks() -> AsyncIterator[bytes]:
        for start in range(0, len(content), size):
            yield content[start : start + size]

    return [each async for each in read_lines(chunks(), max_body_bytes)]


@pytest.mark.parametrize("size", [1, 2, 3, 7, 1000])
@pytest.mark.parametrize("end", [b"", b"\n", b"\r\n"])
async def test_lines_are_the_same_at_every_split(size: int, end: bytes) -> None:
    found = await lines_of(b"one\r\n\n  \ntwo\nthree" + end, size)
    assert [(each.number, (each.text or b"").strip()) for each in found] == [(1, b"one"), (2, b"two"), (3, b"three")]


@pytest.mark.parametrize("size", [1, 100, 5_000, 100_000])
async def test_a_line_that_is_too_long_is_numbered_and_not_kept(size: int) -> None:
    found = await lines_of(b"one\n" + b"x" * 20_000 + b"\ntwo\n" + b"y" * 20_000, size, max_body_bytes=1000)
    assert found == [InputLine(1, b"one"), InputLine(2, None), InputLine(3, b"two"), InputLine(4, None)]


@pytest.mark.parametrize(
    "content",
    [
        b"\n" * 2**20,
        b"".join(json.dumps({**GOOD, "custom_id": str(number)}).encode() + b"\n" for number in range(10_000)),
    ],
    ids=["empty", "valid"],
)
async def test_other_tasks_run_while_short_lines_are_read(content: bytes) -> None:
    turns = 0

    async def count_turns() -> None:
        nonlocal turns
        while True:
            await asyncio.sleep(0)
            turns += 1

    async def chunks() -> AsyncIterator[bytes]:
        yield content

    counting = asyncio.create_task(count_turns())
    await check_lines(read_lines(chunks(), 100_000), URL)
    assert turns >= 16
    counting.cancel()


async def test_an_empty_file_has_no_lines() -> None:
    assert await lines_of(b"", 1) == []


async def test_a_line_is_a_request() -> None:
    request = await parse_line(InputLine(1, json.dumps(GOOD).encode()), URL)
    assert (request.custom_id, request.model) == ("a", "m")
    assert json.loads(request.encoded()) == GOOD["body"]
    without = await parse_line(InputLine(1, json.dumps({**GOOD, "body": {"model": 1}}).encode()), URL)
    assert without.model == ""


@pytest.mark.parametrize(
    ("change", "code", "param"),
    [
        ({"custom_id": None}, "invalid_custom_id", "custom_id"),
        ({"custom_id": 1}, "invalid_custom_id", "custom_id"),
        ({"custom_id": "x" * (MAX_CUSTOM_ID + 1)}, "invalid_custom_id", "custom_id"),
        ({"method": "GET"}, "invalid_method", "method"),
        ({"url": "/v1/completions"}, "mismatched_endpoint", "url"),
        ({"url": None}, "mismatched_endpoint", "url"),
        ({"body": None}, "missing_required_parameter", "body"),
        ({"body": []}, "missing_required_parameter", "body"),
    ],
)
async def test_wrong_lines_are_refused_by_name(change: dict[str, Any], code: str, param: str) -> None:
    with pytest.raises(LineRefused) as refused:
        await parse_line(InputLine(7, json.dumps({**GOOD, **change}).encode()), URL)
    assert refused.value.at(7) == BatchError(code, str(refused.value), param, 7)


@pytest.mark.parametrize("text", [None, b"x", b"[]", b"1", b'{"a": NaN}', b"[" * 1000, b'"\xff"'])
async def test_lines_that_are_no_object_are_refused(text: bytes | None) -> None:
    with pytest.raises(LineRefused) as refused:
        await parse_line(InputLine(1, text), URL)
    assert refused.value.code in ("invalid_json_line", "line_too_long")
