"""Parses an export file into batches of conversation records."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from types import ModuleType
from typing import Any

from chat_ui.history.terms import terms_of
from chat_ui.importing import chatgpt, open_webui, own
from chat_ui.importing.brought import LeftOut, mapping, ours, text
from chat_ui.importing.frames import Batch, Frame, Opened, Order, Refused, Taken
from chat_ui.importing.records import Skipped, SkipReason
from runtime.strict_json import MalformedRequest, parse_now

MOST_CONTAINERS = 2_000_000
"""Arrays and objects in a file, at most."""
AT_ONCE = 50
"""Conversations in a batch, at most."""
BATCH_BYTES = 1_048_576
"""Bytes of text in a batch, at most, unless one conversation alone has more."""
_NO_EXPORT = "This is no export of ChatGPT, of Open WebUI or of this chat."
_KINDS: Sequence[ModuleType] = (chatgpt, open_webui, own)


def read(raw: bytes, order: Order) -> Iterator[Frame]:
    """Parse a file and yield its frames."""
    try:
        found = _conversations(parse_now(raw, MOST_CONTAINERS))
    except MalformedRequest as error:
        yield Refused(str(error), is_json=False)
        return
    if not any(_kind(mapping(each)) is not None for each in found):
        yield Refused(_NO_EXPORT, is_json=True)
        return
    yield Opened(len(found))
    taken: list[Taken] = []
    skipped: list[Skipped] = []
    size = 0
    while found:
        read_one = _one(found.pop(), order)  # popped, so that its memory is freed
        if isinstance(read_one, Skipped):
            skipped.append(read_one)
        else:
            taken.append(read_one)
            size += read_one.conversation.size
        if len(taken) + len(skipped) == AT_ONCE or size >= BATCH_BYTES:
            yield Batch(taken, skipped)
            taken, skipped, size = [], [], 0
    if taken or skipped:
        yield Batch(taken, skipped)


def _conversations(value: Any) -> list[Any]:
    """Return the conversations of a decoded file in reverse order, ready to be popped."""
    inner = mapping(value).get("conversations")
    found = value if isinstance(value, list) else inner if isinstance(inner, list) else [value]
    found.reverse()
    return found


def _kind(value: Any) -> Any:
    return next((kind for kind in _KINDS if kind.is_ours(value)), None)


def _one(found: Any, order: Order) -> Taken | Skipped:
    value = mapping(found)
    title = text(value.get("title")) or text(mapping(value.get("chat")).get("title"))
    kind = _kind(value)
    try:
        if kind is None:
            raise LeftOut(SkipReason.UNKNOWN_KIND)
        brought = kind.read(value, order.now)
        conversation, messages = ours(brought, order.owner, order.model)
    except LeftOut as error:
        return Skipped(title[:200], error.reason, error.limit)
    return Taken(
        conversation, messages, terms_of([conversation.title, *(each.text for each in messages)]), brought.origin
    )
