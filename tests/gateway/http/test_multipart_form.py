"""Forms of requests: read part by part at every split of their bytes; hostile ones are refused within limits."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterable
from typing import Any

import pytest
from starlette.datastructures import Headers
from starlette.requests import ClientDisconnect

from gateway.http.multipart_form import MAX_PARTS, MAX_TEXT, MultipartBody, declared_bytes
from runtime.strict_json import BodyTimeout, BodyTooLarge, IncompleteBody, MalformedRequest, UnsupportedMediaType

TYPE = "multipart/form-data; boundary=XX"
FORM = (
    b'--XX\r\nContent-Disposition: form-data; name="purpose"\r\n\r\nbatch\r\n'
    b'--XX\r\nContent-Disposition: form-data; name="file"; filename="a \\"b\\".jsonl"\r\n'
    b"Content-Type: text/html\r\n\r\nline\r\n--X\r\n--XY not the end\r\n--XX--\r\n"
)
FILE = b"line\r\n--X\r\n--XY not the end"


def body(pieces: Iterable[bytes], content_type: str = TYPE, **options: Any) -> MultipartBody:
    async def chunks() -> AsyncIterator[bytes]:
        for piece in pieces:
            yield piece

    headers = Headers({"content-type": content_type, **options.pop("headers", {})})
    limits: dict[str, Any] = {"max_bytes": 10**6, "idle_timeout": 5.0, "timeout": 5.0, **options}
    return MultipartBody(headers, chunks(), **limits)


async def read(form: MultipartBody) -> list[tuple[str, str | None, bytes]]:
    return [(part.name, part.filename, b"".join([each async for each in part.chunks()])) async for part in form.parts()]


@pytest.mark.parametrize("size", [1, 2, 3, 5, 17, 1000])
async def test_a_form_is_read_at_every_split(size: int) -> None:
    pieces = [FORM[start : start + size] for start in range(0, len(FORM), size)]
    assert await read(body(pieces)) == [("purpose", None, b"batch"), ("file", 'a "b".jsonl', FILE)]


async def test_parts_that_are_not_read_are_skipped() -> None:
    assert [part.name async for part in body([FORM]).parts()] == ["purpose", "file"]


async def test_chunks_of_a_file_are_not_gathered() -> None:
    """The parser gives out what it has before the rest of the body arrives."""
    start = b'--XX\r\nContent-Disposition: form-data; name="file"; filename="f"\r\n\r\n'
    received: list[int] = []

    def pieces() -> Iterable[bytes]:
        yield start
        for number in range(50):
            received.append(number)
            yield bytes(100_000)
        yield b"\r\n--XX--"

    size = 0
    async for part in body(pieces(), max_bytes=10**7).parts():
        async for chunk in part.chunks():
            size += len(chunk)
            assert size + 200_000 >= 100_000 * len(received)
            assert len(chunk) <= 64 * 1024
    assert size == 5_000_000


@pytest.mark.parametrize(
    "content_type",
    [
        "",
        "application/json",
        "multipart/mixed; boundary=XX",
        "multipart/form-data-x; boundary=XX",
        "text/html; x=multipart/form-data",
    ],
)
def test_other_media_types_are_refused(content_type: str) -> None:
    with pytest.raises(UnsupportedMediaType):
        body([], content_type)


def test_compressed_forms_are_refused() -> None:
    with pytest.raises(UnsupportedMediaType):
        body([], headers={"content-encoding": "gzip"})


@pytest.mark.parametrize(
    "parameters",
    ["", "; boundary=", '; boundary=""', "; boundary=" + "x" * 71, "; boundary=" + "x" * 200, "; charset=utf-8"],
)
def test_a_form_without_a_valid_boundary_is_refused(parameters: str) -> None:
    with pytest.raises((MalformedRequest, UnsupportedMediaType)):
        body([], f"multipart/form-data{parameters}")


@pytest.mark.parametrize("stated", ['"XX"', "XX; charset=utf-8", "XX "])
async def test_spellings_of_a_boundary(stated: str) -> None:
    assert len(await read(body([FORM], f"Multipart/Form-Data;  Boundary={stated}"))) == 2


PART = b'--XX\r\nContent-Disposition: form-data; name="a"\r\n\r\n\r\n'


@pytest.mark.parametrize(
    "content",
    [
        b"",
        b"no form",
        FORM[:40],
        FORM[:-20],
        b"\r\n" * 100_000 + FORM,
        PART * (MAX_PARTS + 1) + b"--XX--",
        b"--XX\r\nContent-Disposition: form-data; name=a\r\n" + b"x: y\r\n" * 9 + b"\r\n\r\n--XX--",
        b"--XX\r\nContent-Disposition: form-data; name=" + b"a" * 10_000 + b"\r\n\r\n\r\n--XX--",
        b"--XX\r\nContent-Disposition: attachment; name=a\r\n\r\n\r\n--XX--",
        b"--XX\r\nContent-Disposition: form-data; filename=a\r\n\r\n\r\n--XX--",
        b"--XX\r\n\r\n\r\n--XX--",
        b"--XX\r\nbad header\r\n\r\n\r\n--XX--",
    ],
    ids=[
        "empty",
        "no-form",
        "half",
        "no-end",
        "preamble",
        "parts",
        "headers",
        "long-header",
        "kind",
        "name",
        "none",
        "bad",
    ],
)
async def test_malformed_forms_are_refused(content: bytes) -> None:
    with pytest.raises(MalformedRequest):
        await read(body([content[start : start + 1000] for start in range(0, len(content), 1000)]))


async def test_texts_of_fields_are_limited_and_unicode() -> None:
    start = b'--XX\r\nContent-Disposition: form-data; name="a"\r\n\r\n'
    for text in (b"x" * (MAX_TEXT + 1), b"\xff"):
        part = await anext(body([start + text + b"\r\n--XX--"]).parts())
        with pytest.raises(MalformedRequest):
            await part.text()
    part = await anext(body([start + "ü".encode() + b"\r\n--XX--"]).parts())
    assert await part.text() == "ü"


async def test_bodies_that_are_too_long_or_too_slow_or_break_off_are_refused() -> None:
    with pytest.raises(BodyTooLarge):
        body([], max_bytes=10, headers={"content-length": "11"})
    with pytest.raises(BodyTooLarge):
        await read(body([FORM, b"x" * 1000], max_bytes=len(FORM) + 999))

    async def silent() -> AsyncIterator[bytes]:
        yield FORM[:50]
        await asyncio.Event().wait()

    async def cut() -> AsyncIterator[bytes]:
        yield FORM[:50]
        raise ClientDisconnect

    headers = Headers({"content-type": TYPE})
    for chunks, limits, error in (
        (silent(), (0.01, 5.0), BodyTimeout),
        (silent(), (5.0, 0.01), BodyTimeout),
        (cut(), (5.0, 5.0), IncompleteBody),
    ):
        form = MultipartBody(headers, chunks, max_bytes=10**6, idle_timeout=limits[0], timeout=limits[1])
        with pytest.raises(error):
            await read(form)


@pytest.mark.parametrize(
    ("stated", "size"), [("12", 12), ("", None), ("-1", None), ("1e3", None), ("9" * 19, None), ("²", None)]
)
def test_declared_lengths(stated: str, size: int | None) -> None:
    assert declared_bytes(Headers({"content-length": stated})) == size
