"""A whole file of another program, conversation by conversation, and the taking in of it."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from itertools import islice
from typing import Any

from chat_ui.conversations import Conversations
from chat_ui.errors import InvalidField
from chat_ui.history.records import Conversation, Message, Owner
from chat_ui.importing import chatgpt, open_webui, own
from chat_ui.importing.brought import NotUnderstood, mapping, ours, text

AT_ONCE = 50
"""Conversations that are written together."""
MOST_SKIPPED = 1_000
"""That are told of."""
_KINDS = (chatgpt, open_webui, own)


@dataclass
class Outcome:
    """What came of it: how many were taken, and which were not, for which reason."""

    imported: int = 0
    skipped: list[tuple[str, str]] = field(default_factory=list)

    def skip(self, title: str, reason: str) -> None:
        """Leave one out."""
        if len(self.skipped) < MOST_SKIPPED:
            self.skipped.append((title[:200], reason))


async def take_in(conversations: Conversations, owner: Owner, value: Any, model: str) -> Outcome:
    """Take in what decoded JSON holds; `model`: that its conversations go on with.

    Raises:
        InvalidField: it is no file that we know.
        ConversationFull: the owner may not have so many more.
    """
    found = _conversations(value)
    await conversations.room.take(owner, len(found))
    outcome = Outcome()
    taken = _ours(found, model, outcome)
    # In a thread, some at a time: a large file must not hold up the streams of this process.
    while batch := await asyncio.to_thread(lambda: dict(islice(taken, AT_ONCE))):
        await conversations.take_in(owner, batch)
        outcome.imported += len(batch)
    return outcome


def _conversations(value: Any) -> list[Any]:
    inner = mapping(value).get("conversations")
    found = value if isinstance(value, list) else inner if isinstance(inner, list) else [value]
    if not found or not any(_kind(mapping(each)) is not None for each in found):
        raise InvalidField(None, "This is no export of ChatGPT, of Open WebUI or of this chat.")
    return list(found)


def _kind(value: Any) -> Any:
    return next((kind for kind in _KINDS if kind.is_ours(value)), None)


def _ours(found: list[Any], model: str, outcome: Outcome) -> Iterator[tuple[Conversation, list[Message]]]:
    for each in found:
        value = mapping(each)
        title = text(value.get("title")) or text(mapping(value.get("chat")).get("title"))
        kind = _kind(value)
        try:
            if kind is None:
                raise NotUnderstood("It is no conversation that we know.")
            yield ours(kind.read(value, time.time()), model)
        except NotUnderstood as error:
            outcome.skip(title, str(error))
