"""Reads the lines of a batch's input file one by one, and checks each as OpenAI's Batch API does.

The body of a line is not checked here: its endpoint does that when the line is requested.
"""

from __future__ import annotations

import asyncio
import hashlib
import json
from collections.abc import AsyncIterable, AsyncIterator
from dataclasses import dataclass, field
from typing import Any

from gateway.http.internal_requests import InternalAnswer
from runtime import strict_json
from runtime.strict_json import MalformedRequest
from stored_objects.project_documents.batches import BatchError

MAX_LINES = 50_000
"""Most lines of a batch's input file."""
MAX_FAILURES = 100
"""Errors of a batch that fails its validation which are listed."""
MAX_CUSTOM_ID = 512
"""Characters of the longest `custom_id`."""
_PIECE = 32 * 1024
_MAX_ENVELOPE = 8 * 1024
"""Bytes that a line may have besides the body of its request."""


@dataclass(frozen=True)
class InputLine:
    """One line of an input file; `text` is `None` if the line is too long to be read."""

    number: int
    text: bytes | None


@dataclass(frozen=True)
class LineRequest:
    """The request that a line asks for."""

    custom_id: str
    body: dict[str, Any]

    @property
    def model(self) -> str:
        """Name of the requested model; "" if the body has none."""
        model = self.body.get("model")
        return model if isinstance(model, str) else ""

    def encoded(self) -> bytes:
        """Return the body as JSON."""
        return json.dumps(self.body, separators=(",", ":")).encode()


class LineRefused(Exception):
    """Raised when a line is not a valid request of its batch."""

    def __init__(self, code: str, message: str, param: str | None = None) -> None:
        super().__init__(message)
        self.code = code
        self.param = param

    def at(self, line: int) -> BatchError:
        """Return this error as the batch's, with the number of the line."""
        return BatchError(self.code, str(self), self.param, line)


async def read_lines(chunks: AsyncIterable[bytes], max_body_bytes: int) -> AsyncIterator[InputLine]:
    """Yield the lines of a file, numbered from 1; empty lines do not count, too long ones have no text."""
    longest, number = max_body_bytes + _MAX_ENVELOPE, 0
    rest, too_long = b"", False
    async for chunk in _pieces(chunks):
        *lines, tail = chunk.split(b"\n")
        for line in lines:
            whole = rest + line
            if too_long or len(whole) > longest or whole.strip():
                number += 1
                yield InputLine(number, None if too_long or len(whole) > longest else whole)
            rest, too_long = b"", False
        too_long = too_long or len(rest) + len(tail) > longest
        rest = b"" if too_long else rest + tail
    if too_long or rest.strip():
        yield InputLine(number + 1, None if too_long else rest)


async def _pieces(chunks: AsyncIterable[bytes]) -> AsyncIterator[bytes]:
    """Yield the content in pieces, between which other tasks run: one may have many thousands of lines."""
    async for chunk in chunks:
        for start in range(0, len(chunk), _PIECE):
            yield chunk[start : start + _PIECE]
            await asyncio.sleep(0)


async def parse_line(line: InputLine, endpoint: str) -> LineRequest:
    """Parse one line, and return its request.

    Raises:
        LineRefused: the line is too long, no JSON object, or names another method or endpoint than the batch.
    """
    if line.text is None:
        raise LineRefused("line_too_long", "The line is longer than a request may be.")
    try:
        value = await strict_json.parse(line.text, lambda parsed: parsed)
    except MalformedRequest as error:
        raise LineRefused("invalid_json_line", "This line is not parseable as valid JSON.") from error
    if not isinstance(value, dict):
        raise LineRefused("invalid_json_line", "This line is not a JSON object.")
    custom_id, body = value.get("custom_id"), value.get("body")
    if not isinstance(custom_id, str) or not 0 < len(custom_id) <= MAX_CUSTOM_ID:
        raise LineRefused("invalid_custom_id", f"'custom_id' must have 1 to {MAX_CUSTOM_ID} characters.", "custom_id")
    if value.get("method") != "POST":
        raise LineRefused("invalid_method", "'method' must be 'POST'.", "method")
    if value.get("url") != endpoint:
        raise LineRefused("mismatched_endpoint", "'url' must be the endpoint of the batch.", "url")
    if not isinstance(body, dict):
        raise LineRefused("missing_required_parameter", "'body' must be an object.", "body")
    return LineRequest(custom_id, body)


def refusal(request: LineRequest) -> InternalAnswer | None:
    """Return the answer to a request that no batch can make; `None` to all others."""
    for name in ("stream", "background"):
        if request.body.get(name):
            return InternalAnswer.refused(f"Invalid '{name}': the requests of a batch are answered whole.", name)
    return None


@dataclass
class CheckedLines:
    """Result of the check of all lines of an input file."""

    total: int = 0
    model: str = ""
    """Model of the first line that has one."""
    failures: list[BatchError] = field(default_factory=list)


async def check_lines(lines: AsyncIterator[InputLine], endpoint: str) -> CheckedLines:
    """Read all lines and check that each is a valid request to `endpoint` with a `custom_id` of its own."""
    found = CheckedLines()
    seen: set[bytes] = set()
    async for line in lines:
        found.total += 1
        if found.total > MAX_LINES:
            found.failures.append(BatchError("too_many_requests", f"A batch has {MAX_LINES} lines at most."))
            break
        try:
            request = await parse_line(line, endpoint)
            digest = hashlib.sha256(request.custom_id.encode()).digest()[:16]
            if digest in seen:
                raise LineRefused("duplicate_custom_id", "Another line has this 'custom_id'.", "custom_id")
            seen.add(digest)
            found.model = found.model or request.model
        except LineRefused as error:
            found.failures.append(error.at(line.number))
            if len(found.failures) >= MAX_FAILURES:
                break
    if not found.total:
        found.failures.append(BatchError("empty_file", "The input file has no lines."))
    return found
