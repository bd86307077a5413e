"""Follows an answer from wherever it is written: here by its wakes, elsewhere by looking into the store.

What it says are events with ids, `ATTEMPT.CHARACTERS`: whoever shows the last one is told what he does not know, and
all of it where the answer has begun again or another process has gone on from an earlier place. Knows no HTTP.
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import AsyncIterator, Sequence
from dataclasses import dataclass

from chat_ui.generations.generations import Generations
from chat_ui.history.records import Message, MessageStore, Owner, State, Waiting

LOOK_SECONDS = 0.3
"""Between two looks into the store."""
PATIENCE_SECONDS = 5.0
"""With nothing new here, to look whether the process still wants followers."""
_ID = re.compile(r"(\d{1,9})\.(\d{1,9})")


@dataclass(frozen=True)
class Event:
    """Something that a follower is told. `data` is what the event's name says."""

    name: str
    data: Waiting | Message | tuple[int, str] | str | None = None
    id: str = ""


@dataclass
class _Place:
    """What a follower has: so many characters of an attempt (and so many units, as JavaScript counts them)."""

    attempt: int
    characters: int = 0
    units: int = 0


def utf16_units(text: str) -> int:
    """How long JavaScript says that a text is."""
    return len(text) + sum(letter > "\uffff" for letter in text)


class Follower:
    """One reader of one answer."""

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
        """All that happens from `message` on (the answer as it was looked up); `after`: the last id known.

        `None`: nothing has happened for `PATIENCE_SECONDS` at most, and whoever listens may look after other things.
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
    """Where a follower is who has seen the event `after`."""
    match = _ID.fullmatch(after)
    if match is None:
        return None
    attempt, characters = int(match[1]), int(match[2])
    if attempt != message.attempt or characters > len(message.text):
        return _Place(-1)  # he has something else: he is told everything
    return _Place(attempt, characters, utf16_units(message.text[:characters]))
