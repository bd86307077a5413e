"""Bodies that are not strict JSON, or not within limits."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import AsyncIterator

import pytest
from starlette.datastructures import Headers

from runtime.strict_json import (
    INLINE_BYTES,
    BodyTimeout,
    BodyTooLarge,
    MalformedRequest,
    UnsupportedMediaType,
    check_headers,
    parse,
    parse_now,
    read_body,
)

BAD = {
    "empty": b"",
    "blank": b"  \n",
    "trailing garbage": b"{}x",
    "two values": b"{} {}",
    "NaN": b'{"t": NaN}',
    "Infinity": b'{"t": Infinity}',
    "-Infinity": b'{"t": -Infinity}',
    "1e400": b'{"t": 1e400}',
    "long float": b'{"t": 0.' + b"1" * 1000 + b"}",
    "5,000 digits": b'{"n": ' + b"9" * 5000 + b"}",
    "a million digits": b'{"n": -' + b"9" * 1_000_000 + b"}",
    "65 deep": b"[" * 65 + b"]" * 65,
    "100,000 deep": b"[" * 100_000 + b"]" * 100_000,
    "100,000 open": b'{"a":' * 100_000,
    "too many arrays": b"[" + b"[]," * 60_000 + b"[]]",
    "unbalanced": b"[}",
    "duplicate key": b'{"a": 1, "a": 2}',
    "nested duplicate key": b'[{"x": {"a": 1, "\\u0061": 2}}]',
    "lone surrogate": b'{"a": "\\ud800"}',
    "lone surrogate as key": b'{"\\uDfff": 1}',
    "surrogates the wrong way round": b'["\\ude00\\ud83d"]',
    "not UTF-8": b'{"a": "\xff"}',
    "UTF-16": '{"a": 1}'.encode("utf-16"),
    "byte order mark": b"\xef\xbb\xbf{}",
    "control character": b'{"a": "\x00"}',
    "single quotes": b"{'a': 1}",
    "comment": b"{} // x",
    "unterminated string with many quotes": b'"' + b'\\"' * 1_000_000,
    "hexadecimal": b"0x10",
    "leading zero": b"01",
}


@pytest.mark.parametrize("body", BAD.values(), ids=BAD.keys())
def test_refuses(body: bytes) -> None:
    with pytest.raises(MalformedRequest) as caught:
        parse_now(body)
    assert len(str(caught.value)) < 200  # never repeats the input


GOOD = {
    b'{"a": "\\ud83d\\ude00"}': {"a": "😀"},
    b'{"a": "]]}}[[{{ \\\\"}': {"a": "]]}}[[{{ \\"},
    b'{"a": "\\"[\\"", "b": [{}, [], {"c": [1.5e3, -0.0, true, null]}]}': {
        "a": '"["',
        "b": [{}, [], {"c": [1500.0, -0.0, True, None]}],
    },
    b"[" * 64 + b"]" * 64: None,
    b"-9223372036854775808": -(2**63),
    b'"x"': "x",
}


@pytest.mark.parametrize("body", GOOD)
def test_reads(body: bytes) -> None:
    value = parse_now(body)
    if GOOD[body] is not None:
        assert value == GOOD[body]


async def test_long_bodies_are_parsed_off_the_loop() -> None:
    body = b'["' + b"a" * INLINE_BYTES + b'"]'
    thread = threading.get_ident()
    assert await parse(body, lambda value: (value, threading.get_ident() == thread)) == (["a" * INLINE_BYTES], False)
    assert await parse(b"1", lambda value: (value, threading.get_ident() == thread)) == (1, True)
    with pytest.raises(MalformedRequest):
        await parse(body + b"x", list)


@pytest.mark.parametrize(
    "headers",
    [
        {},
        {"content-type": "text/plain"},
        {"content-type": "application/x-www-form-urlencoded"},
        {"content-type": "application/jsonp"},
        {"content-type": "application/json; charset=utf-16"},
        {"content-type": "application/json; charset*=utf-8''; charset*0=b"},
        {"content-type": "application/json; charset"},
        {"content-type": "application/json;" + " " * 300},
        {"content-type": "application/json", "content-encoding": "gzip"},
        {"content-type": "application/json", "content-encoding": "identity, gzip"},
    ],
)
def test_refuses_media_types(headers: dict[str, str]) -> None:
    with pytest.raises(UnsupportedMediaType):
        check_headers(Headers(headers), 100)


def test_reads_declared_length_first() -> None:
    json = {"content-type": "Application/JSON ; charset=UTF-8"}
    check_headers(Headers({**json, "content-length": "100"}), 100)
    for length in ("101", "9" * 5000):
        with pytest.raises(BodyTooLarge):
            check_headers(Headers({**json, "content-length": length}), 100)


async def test_reads_no_more_than_it_may() -> None:
    taken = []

    async def endless() -> AsyncIterator[bytes]:
        while True:
            taken.append(1)
            yield b"x" * 10

    with pytest.raises(BodyTooLarge):
        await read_body(endless(), 100, 5)
    assert len(taken) == 11


async def test_waits_no_longer_than_it_may() -> None:
    async def dawdling() -> AsyncIterator[bytes]:
        yield b"{"
        await asyncio.Event().wait()

    with pytest.raises(BodyTimeout):
        await read_body(dawdling(), 100, 0.01)
