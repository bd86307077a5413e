"""Reads and parses strict JSON request bodies of HTTP routes within limits of size, time, nesting and digits.

Python's parser accepts more than JSON allows (NaN, duplicate keys, integers of any length, lone surrogates), and each
of these causes errors in later code.

MalformedRequest              the body is not strict JSON
├── BodyTooLarge
├── BodyTimeout
├── IncompleteBody             the client has disconnected
└── UnsupportedMediaType
"""

from __future__ import annotations

import asyncio
import json
import math
import re
from collections.abc import AsyncIterator, Callable
from itertools import accumulate
from typing import Any, NoReturn, TypeVar

from starlette.datastructures import Headers
from starlette.requests import ClientDisconnect

T = TypeVar("T")

JSON = "application/json"
MAX_DEPTH = 64
MAX_CONTAINERS = 50_000
"""Maximum number of arrays and objects: parsing millions of empty ones would block the interpreter."""
MAX_INTEGER_DIGITS = 20
"""Maximum digits of an integer: enough for 64 bits and a sign."""
MAX_FLOAT_CHARACTERS = 128
MAX_CONTENT_TYPE = 256
"""Maximum length of a Content-Type header in characters."""
INLINE_BYTES = 64 * 1024
"""Larger bodies are parsed in a thread, so that they do not block the event loop."""

_UTF_8 = ("utf-8", "utf8")
_STRING = re.compile(rb'"[^"]*"')
_STEPS = {ord("["): 1, ord("{"): 1, ord("]"): -1, ord("}"): -1}
_NOT_BRACKETS = bytes(byte for byte in range(256) if byte not in _STEPS)
_SURROGATE = re.compile(rb"\\u[dD][89a-fA-F]")


class MalformedRequest(Exception):
    """Base of errors in a request body. The message is for the client, and never contains the body."""


class BodyTooLarge(MalformedRequest):
    """Raised when a body is larger than allowed; the rest is not read."""


class BodyTimeout(MalformedRequest):
    """Raised when a body did not arrive before the timeout."""


class IncompleteBody(MalformedRequest):
    """Raised when the client disconnected before it had sent the whole body, so that no response reaches it."""


class UnsupportedMediaType(MalformedRequest):
    """Raised for a Content-Type or Content-Encoding that is not supported."""


def check_headers(headers: Headers, max_bytes: int, *, typed: bool = True) -> None:
    """Check a request's Content-Type (if `typed`), Content-Encoding and Content-Length before its JSON body is read.

    Raises:
        UnsupportedMediaType: the body is not declared as JSON in UTF-8, or is compressed.
        BodyTooLarge: Content-Length exceeds `max_bytes`.
    """
    if typed:
        _check_content_type(headers.get("content-type", ""))
    if headers.get("content-encoding", "identity").strip().lower() != "identity":
        raise UnsupportedMediaType("Compressed request bodies are not supported.")
    declared = headers.get("content-length", "")
    if declared.isdecimal() and (len(declared) > 18 or int(declared) > max_bytes):
        raise _too_large(max_bytes)


def _check_content_type(stated: str) -> None:
    """Check a Content-Type in linear time: `email.message` takes quadratic time for semicolons in a quoted value."""
    media_type, *parameters = stated[: MAX_CONTENT_TYPE + 1].lower().split(";")
    if len(stated) > MAX_CONTENT_TYPE or media_type.strip() != JSON:
        raise UnsupportedMediaType("The Content-Type must be application/json.")
    for parameter in parameters:
        name, _, value = parameter.strip().partition("=")
        if name.rstrip("*0123456789") == "charset" and (name != "charset" or value.strip('"') not in _UTF_8):
            raise UnsupportedMediaType("The body must be encoded as UTF-8.")


async def read_body(chunks: AsyncIterator[bytes], max_bytes: int, seconds: float) -> bytes:
    """Read one HTTP request's whole body from the server's `chunks` and return it as bytes.

    Raises:
        BodyTooLarge: the body exceeds `max_bytes`; the rest is not read.
        BodyTimeout: the body is not complete after `seconds`.
        IncompleteBody: the client disconnected before the end.
    """
    body = bytearray()
    await receive_body(chunks, max_bytes, seconds, body.extend)
    return bytes(body)


async def receive_body(
    chunks: AsyncIterator[bytes], max_bytes: int, seconds: float, write: Callable[[bytes], object]
) -> None:
    """Pass one HTTP request's body to `write`, chunk by chunk as the server yields them.

    Raises:
        BodyTooLarge: the body exceeds `max_bytes`; the rest is not read.
        BodyTimeout: the body is not complete after `seconds`.
        IncompleteBody: the client disconnected before the end.
    """
    size = 0
    try:
        async with asyncio.timeout(seconds):
            async for chunk in chunks:
                size += len(chunk)
                if size > max_bytes:
                    raise _too_large(max_bytes)
                write(chunk)
    except TimeoutError as error:
        raise BodyTimeout("The request body did not arrive in time.") from error
    except ClientDisconnect as error:
        raise IncompleteBody("The client closed the connection.") from error


async def parse(body: bytes, build: Callable[[Any], T], max_containers: int = MAX_CONTAINERS) -> T:
    """Parse a request body as strict JSON and return `build(value)` of the decoded value.

    Long bodies are parsed in a thread.

    Raises:
        MalformedRequest: the body is not strict JSON in UTF-8, or nested too deeply.
    """
    if len(body) <= INLINE_BYTES:
        return build(parse_now(body, max_containers))
    return await asyncio.to_thread(lambda: build(parse_now(body, max_containers)))


def parse_now(body: bytes, max_containers: int = MAX_CONTAINERS) -> Any:
    """Parse a request body as strict JSON in the calling thread, and return the decoded value.

    Raises:
        MalformedRequest: the body is not strict JSON in UTF-8, or nested too deeply.
    """
    _check_shape(body, max_containers)
    try:
        value = _DECODER.decode(body.decode("utf-8"))
        if _SURROGATE.search(body):
            json.dumps(value, ensure_ascii=False).encode("utf-8")
    except UnicodeError as error:
        raise MalformedRequest("The body is not valid Unicode in UTF-8.") from error
    except (ValueError, RecursionError) as error:
        raise MalformedRequest("We could not parse the JSON body of your request.") from error
    return value


def _check_shape(body: bytes, max_containers: int) -> None:
    """Check nesting depth and number of containers before parsing: the parser's own limits are stack and memory."""
    plain = _STRING.sub(b"", body.replace(rb"\\", b"").replace(rb"\"", b""))
    brackets = plain.translate(None, _NOT_BRACKETS)
    if len(brackets) > 2 * max_containers:
        raise MalformedRequest(f"The JSON body has more than {max_containers} arrays and objects.")
    if any(depth > MAX_DEPTH for depth in accumulate(map(_STEPS.__getitem__, brackets))):
        raise MalformedRequest(f"The JSON body is nested deeper than {MAX_DEPTH} levels.")


def _refuse_constant(name: str) -> NoReturn:
    raise MalformedRequest(f"{name} is not a JSON number.")


def _integer(digits: str) -> int:
    if len(digits) > MAX_INTEGER_DIGITS:
        raise MalformedRequest("An integer in the body has too many digits.")
    return int(digits)


def _finite(digits: str) -> float:
    number = float(digits) if len(digits) <= MAX_FLOAT_CHARACTERS else math.inf
    if not math.isfinite(number):
        raise MalformedRequest("A number in the body is too large or too long.")
    return number


def _unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    value = dict(pairs)
    if len(value) != len(pairs):
        raise MalformedRequest("An object in the body has the same key twice.")
    return value


_DECODER = json.JSONDecoder(
    parse_constant=_refuse_constant, parse_int=_integer, parse_float=_finite, object_pairs_hook=_unique
)


def _too_large(max_bytes: int) -> BodyTooLarge:
    return BodyTooLarge(f"The request body is larger than {max_bytes} bytes.")
