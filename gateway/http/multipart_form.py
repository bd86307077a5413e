"""Reads `multipart/form-data` bodies part by part, so that a file in one is never whole in memory.

Each part is read before the next: its text, or its bytes in chunks. Limits hold for everything around the bytes of a
file: boundary, number of parts, their headers and the texts of fields.
"""

from __future__ import annotations

import asyncio
import re
import time
from collections import deque
from collections.abc import AsyncIterator
from dataclasses import dataclass, field

from python_multipart.exceptions import FormParserError
from python_multipart.multipart import MultipartParser
from starlette.datastructures import Headers
from starlette.requests import ClientDisconnect

from runtime.strict_json import BodyTimeout, BodyTooLarge, IncompleteBody, MalformedRequest, UnsupportedMediaType

MAX_PARTS = 16
"""Most parts of one form."""
MAX_TEXT = 4096
"""Bytes of the text of a field."""
MAX_OVERHEAD = 64 * 1024
"""Bytes that a body may have besides its file; also before its first part, and after its end."""
_MAX_HEADERS, _MAX_HEADER_BYTES = 8, 4096
_SLICE = 64 * 1024
"""Bytes that are parsed at once, between which other requests go on."""

_CONTENT_TYPE = re.compile(r"multipart/form-data\s*(?:;[^\0]{0,256})?", re.IGNORECASE)
_BOUNDARY = re.compile(r";\s*boundary=(?:\"([^\"\\\0-\x1f]{1,70})\"|([^\s;\"]{1,70}))\s*(?:;|$)", re.IGNORECASE)
_PARAMETER = re.compile(rb';\s*([a-zA-Z]{1,32})=(?:"((?:[^"\\]|\\.)*)"|([^\s;"]*))')
_ESCAPED = re.compile(rb"\\(.)")


@dataclass
class FormPart:
    """One part of a form: a field, or with a `filename` (empty if the client gave none but sent a file) a file."""

    name: str
    filename: str | None
    _body: MultipartBody = field(repr=False)

    async def chunks(self) -> AsyncIterator[bytes]:
        """Yield the bytes of the part as they arrive. Raises as `MultipartBody.parts` does."""
        while (event := await self._body.next_event()) is not None:
            if event is _END:
                return
            if isinstance(event, bytes):
                yield event

    async def text(self) -> str:
        """Return the text of a field.

        Raises:
            MalformedRequest: it is longer than `MAX_TEXT` bytes or no UTF-8; or as `MultipartBody.parts` does.
        """
        content = bytearray()
        async for chunk in self.chunks():
            content += chunk
            if len(content) > MAX_TEXT:
                raise MalformedRequest(f"A field of the form has more than {MAX_TEXT} bytes.")
        try:
            return content.decode()
        except UnicodeDecodeError as error:
            raise MalformedRequest("A field of the form is not valid UTF-8.") from error


class _End:
    """End of a part."""


_END = _End()
_Event = dict[bytes, bytes] | bytes | _End
"""Headers of a part that begins, bytes of it, or its end."""


class MultipartBody:
    """The body of one request, as parts that are read in order.

    Args:
        headers: the request's headers.
        chunks: the request's body as the server yields it.
        max_bytes: most bytes of the body.
        idle_timeout: seconds that may pass between two chunks.
        timeout: seconds that the whole body may take.

    Raises:
        UnsupportedMediaType, BodyTooLarge, MalformedRequest: the headers declare no such body.
    """

    def __init__(
        self,
        headers: Headers,
        chunks: AsyncIterator[bytes],
        *,
        max_bytes: int,
        idle_timeout: float,
        timeout: float,
    ) -> None:
        self._stream = chunks
        self._left = max_bytes
        self._surrounding = 0
        self._max_bytes = max_bytes
        self._idle_timeout = idle_timeout
        self._deadline = time.monotonic() + timeout
        self._events: deque[_Event] = deque()
        self._unparsed = memoryview(b"")
        self._is_whole = False
        self._parts = 0
        self._header, self._value = bytearray(), bytearray()
        self._headers: dict[bytes, bytes] = {}
        declared = declared_bytes(headers)
        if declared is not None and declared > max_bytes:
            raise self._too_large()
        self._parser = MultipartParser(
            _boundary(headers),
            {
                "on_part_begin": self._begin,
                "on_part_data": self._data,
                "on_part_end": lambda: self._events.append(_END),
                "on_header_field": lambda data, start, end: self._header.extend(data[start:end]),
                "on_header_value": lambda data, start, end: self._value.extend(data[start:end]),
                "on_header_end": self._end_header,
                "on_headers_finished": lambda: self._events.append(self._headers),
                "on_end": self._end,
            },
            max_header_count=_MAX_HEADERS,
            max_header_size=_MAX_HEADER_BYTES,
        )

    async def parts(self) -> AsyncIterator[FormPart]:
        """Yield the parts of the form in order; what is left unread of one is skipped before the next.

        Raises:
            MalformedRequest: the body is no complete form.
            BodyTooLarge, BodyTimeout, IncompleteBody: it is too long, too slow, or its client has left.
        """
        while (event := await self.next_event()) is not None:
            if isinstance(event, dict):
                yield self._part(event)

    async def next_event(self) -> _Event | None:
        """Return what comes next in the form; `None` at its end. Raises as `parts` does."""
        while not self._events:
            if not self._unparsed:
                chunk = await self._receive()
                if chunk is None:
                    if not self._is_whole:
                        raise MalformedRequest("The form ends before its last boundary.")
                    return None
                self._unparsed = memoryview(chunk)
            piece, self._unparsed = bytes(self._unparsed[:_SLICE]), self._unparsed[_SLICE:]
            try:
                self._parser.write(piece)
            except FormParserError as error:
                raise MalformedRequest("We could not parse the form of your request.") from error
            if self._is_whole or not self._parts:
                self._surrounding += len(piece)
            if self._surrounding > MAX_OVERHEAD + _SLICE:
                raise MalformedRequest("The form has too many bytes before its first part or after its end.")
        return self._events.popleft()

    async def _receive(self) -> bytes | None:
        seconds = min(self._idle_timeout, self._deadline - time.monotonic())
        try:
            async with asyncio.timeout(seconds):
                chunk = await anext(self._stream, None)
        except TimeoutError as error:
            raise BodyTimeout("The request body did not arrive in time.") from error
        except ClientDisconnect as error:
            raise IncompleteBody("The client closed the connection.") from error
        self._left -= len(chunk or b"")
        if self._left < 0:
            raise self._too_large()
        return chunk

    def _too_large(self) -> BodyTooLarge:
        return BodyTooLarge(f"The request body is larger than {self._max_bytes} bytes.")

    def _begin(self) -> None:
        self._parts += 1
        if self._parts > MAX_PARTS:
            raise MalformedRequest(f"The form has more than {MAX_PARTS} parts.")
        self._headers = {}

    def _data(self, data: bytes, start: int, end: int) -> None:
        self._events.append(data[start:end])

    def _end_header(self) -> None:
        self._headers[bytes(self._header).lower()] = bytes(self._value)
        self._header, self._value = bytearray(), bytearray()

    def _end(self) -> None:
        self._is_whole = True

    def _part(self, headers: dict[bytes, bytes]) -> FormPart:
        kind, _, _ = headers.get(b"content-disposition", b"").partition(b";")
        found = _PARAMETER.findall(headers.get(b"content-disposition", b""))
        parameters = {name.lower(): _ESCAPED.sub(rb"\1", quoted) or plain for name, quoted, plain in found}
        if kind.strip().lower() != b"form-data" or b"name" not in parameters:
            raise MalformedRequest("A part of the form has no name.")
        filename = parameters.get(b"filename")
        return FormPart(
            parameters[b"name"].decode(errors="replace"),
            None if filename is None else filename.decode(errors="replace"),
            self,
        )


def declared_bytes(headers: Headers) -> int | None:
    """Return the Content-Length of a request; `None` if it has none, or none that is a number of at most 18 digits."""
    declared = headers.get("content-length", "")
    return int(declared) if declared.isascii() and declared.isdecimal() and len(declared) <= 18 else None


def _boundary(headers: Headers) -> bytes:
    stated = headers.get("content-type", "")
    if not _CONTENT_TYPE.fullmatch(stated):
        raise UnsupportedMediaType("The Content-Type must be multipart/form-data.")
    if headers.get("content-encoding", "identity").strip().lower() != "identity":
        raise UnsupportedMediaType("Compressed request bodies are not supported.")
    found = _BOUNDARY.search(stated)
    if found is None:
        raise MalformedRequest("The Content-Type of the form has no valid boundary.")
    return (found[1] or found[2]).encode("latin-1")
