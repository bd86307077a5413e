"""Streams the events of an answer: from memory if this process writes it, else by polling the store.

Text events have ids, `ATTEMPT.CHARACTERS`. A reader that presents its last id gets only the rest; if the answer was
restarted, or another process continued it from an earlier position, the reader gets the whole text.
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import AsyncIterator, Sequence
from dataclasses import dataclass

from chat_ui.generations.generations import Generations
from chat_ui.history.records import Message, MessageStore, Owner, State, Waiting

LOOK_SECONDS = 0.3
"""Interval of polling the store, in seconds."""
PATIENCE_SECONDS = 5.0
"""Longest wait for a change of an answer in this process, before the stop flag is checked again."""
_ID = re.compile(r"(\d{1,9})\.(\d{1,9})")


@dataclass(frozen=True)
class Event:
    """An event of an answer. `name` determines the type of `data`."""

    name: str
    data: Waiting | Message | tuple[int, str] | str | None = None
    id: str = ""


@dataclass
class _Place:
    """How much of an attempt's text a reader has, in characters and in UTF-16 code units (as JavaScript counts)."""

    attempt: int
    characters: int = 0
    units: int = 0


def utf16_units(text: str) -> int:
    """Return the length of a text in UTF-16 code units, as JavaScript counts it."""
    return len(text) + sum(letter > "\uffff" for letter in text)


class Follower:
    """Reads the events of one answer for one client."""

    def __init__(
        self,
        generations: Generations,
        messages: MessageStore,
        owner: Owner,
        conversation_id: str,
        message_id: str,
    ) -> None:
        self._generations = generations
        self._messages = messages
        self._owner = owner
        self._conversation = conversation_id
        self._message = message_id
        self._place: _Place | None = None
        self._waiting: Waiting | None = None

    async def events(self, message: Message, after: str) -> AsyncIterator[Event | None]:
        """Yield all events from `message` (the answer as it was loaded) on; `after` is the client's last event id.

        Yields `None` at least every `PATIENCE_SECONDS` without an event, so that the caller can do periodic checks.
        """
        self._place = _place(after, message)
        while True:
            live = self._generations.live(self._message)
            seen = 0 if live is None else live.version
            if live is not None and not live.left:
                message = live.now
            for event in self._news(message) or [None]:
                yield event
            if not message.state.is_open:
                break
            if live is not None and not live.left:
                await live.news(seen, PATIENCE_SECONDS)
                continue
            if self._generations.stopping.is_set():
                return
            await asyncio.sleep(LOOK_SECONDS)
            found = await self._messages.find(self._owner, self._conversation, self._message)
            if found is None:
                return  # deleted
            message = found
        if title := await self._generations.titled(message):
            yield Event("title", title)

    def _news(self, message: Message) -> Sequence[Event | None]:
        place = self._place
        events: list[Event] = []
        if place is None:
            place = self._place = _Place(message.attempt)
        if place.attempt != message.attempt:
            place.attempt, place.characters, place.units = message.attempt, 0, 0
            if not message.text:
                events.append(Event("restart", id=f"{message.attempt}.0"))
        waiting = message.waiting or Waiting(None, None)
        if message.state is State.WAITING and self._waiting != waiting:
            self._waiting = waiting
            events.append(Event("waiting", waiting))
        if new := message.text[place.characters :]:
            at = place.units
            place.characters += len(new)
            place.units += utf16_units(new)
            events.append(Event("text", (at, new), f"{place.attempt}.{place.characters}"))
        if not message.state.is_open:
            events.append(Event("failed" if message.state is State.FAILED else "done", message))
        return events


def _place(after: str, message: Message) -> _Place | None:
    """Return the position of a reader whose last event id is `after`; `None` if it has none."""
    match = _ID.fullmatch(after)
    if match is None:
        return None
    attempt, characters = int(match[1]), int(match[2])
    if attempt != message.attempt or characters > len(message.text):
        return _Place(-1)  # the client's text is not a prefix of this one: send all of it
    return _Place(attempt, characters, utf16_units(message.text[:characters]))
