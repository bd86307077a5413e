"""Parses an export file of a known format into batches of conversation records, in the sandboxed parser process."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from types import ModuleType
from typing import Any, BinaryIO

import msgspec

from chat_ui.history.search_terms import search_terms
from chat_ui.importing import chatgpt, headrace, open_webui
from chat_ui.importing.frames import Batch, ConversationRecords, Frame, ImportRequest, Opened, Refused
from chat_ui.importing.parsed_conversation import ConversationSkipped, mapping, text, to_records
from chat_ui.importing.records import Skipped, SkipReason
from runtime.strict_json import MalformedRequest, parse_now

MAX_CONTAINERS = 2_000_000
"""Arrays and objects in a file, at most."""
BATCH_SIZE = 50
"""Conversations in a batch, at most."""
BATCH_BYTES = 1_048_576
"""Bytes of text in a batch, at most, unless one conversation alone has more."""
_UNKNOWN_FORMAT = "This is no export of ChatGPT, of Open WebUI or of this chat."
_FORMATS: Sequence[ModuleType] = (chatgpt, open_webui, headrace)
_requests = msgspec.msgpack.Decoder(ImportRequest)
_frames = msgspec.msgpack.Encoder()


def parse(raw: bytes, request: ImportRequest) -> Iterator[Frame]:
    """Parse an export file; yield `Opened` and then batches of conversation records, or only `Refused`.

    A file is refused if it is no JSON or its format is unknown.
    """
    try:
        found = _conversations(parse_now(raw, MAX_CONTAINERS))
    except MalformedRequest as error:
        yield Refused(str(error), is_json=False)
        return
    if not any(_format_of(mapping(each)) is not None for each in found):
        yield Refused(_UNKNOWN_FORMAT, is_json=True)
        return
    yield Opened(len(found))
    taken: list[ConversationRecords] = []
    skipped: list[Skipped] = []
    size = 0
    while found:
        converted = _convert(found.pop(), request)  # popped, so that its memory is freed
        if isinstance(converted, Skipped):
            skipped.append(converted)
        else:
            taken.append(converted)
            size += converted.conversation.size
        if len(taken) + len(skipped) == BATCH_SIZE or size >= BATCH_BYTES:
            yield Batch(taken, skipped)
            taken, skipped, size = [], [], 0
    if taken or skipped:
        yield Batch(taken, skipped)


def encoded_frames(order: bytes, source: BinaryIO) -> Iterator[bytes]:
    """Parse the export file `source` by the encoded `ImportRequest` `order`, and yield encoded frames.

    The main function of the sandboxed parser process.
    """
    request = _requests.decode(order)
    return map(_frames.encode, parse(source.read(), request))


def _conversations(value: Any) -> list[Any]:
    """Return the conversations of a decoded file in reverse order, ready to be popped."""
    inner = mapping(value).get("conversations")
    found = value if isinstance(value, list) else inner if isinstance(inner, list) else [value]
    found.reverse()
    return found


def _format_of(value: Any) -> Any:
    return next((format_module for format_module in _FORMATS if format_module.matches(value)), None)


def _convert(found: Any, request: ImportRequest) -> ConversationRecords | Skipped:
    value = mapping(found)
    title = text(value.get("title")) or text(mapping(value.get("chat")).get("title"))
    format_module = _format_of(value)
    try:
        if format_module is None:
            raise ConversationSkipped(SkipReason.UNKNOWN_KIND)
        parsed = format_module.parse(value, request.now)
        conversation, messages = to_records(parsed, request.owner, request.model)
    except ConversationSkipped as error:
        return Skipped(title[:200], error.reason, error.limit)
    return ConversationRecords(
        conversation, messages, search_terms([conversation.title, *(each.text for each in messages)]), parsed.origin
    )
