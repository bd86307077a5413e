"""Streams the events of one answer to a browser: from memory if this process writes it, else by polling the store.

Text events have ids, `ATTEMPT.CHARACTERS`. A reader that presents its last id gets only the rest; if the answer was
restarted, or another process continued it from an earlier position, the reader gets the whole text. Steps have no ids:
each new reader gets all of them again.
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import AsyncIterator, Sequence
from dataclasses import dataclass

from chat_ui.generations.generations import Generations
from chat_ui.history.records import Message, MessageStore, Owner, QueueStatus, State
from chat_ui.history.steps import Step

POLL_INTERVAL = 0.3
"""Seconds between two reads of the store."""
CHANGE_TIMEOUT = 5.0
"""Longest wait in seconds for a change of an answer in this process, before the stop flag is checked again."""
_ID = re.compile(r"(\d{1,9})\.(\d{1,9})")


@dataclass(frozen=True)
class StreamEvent:
    """A server-sent event about an answer's steps, text or state. `name` determines the type of `data`."""

    name: str
    data: QueueStatus | Step | Message | tuple[int, str] | str | None = None
    id: str = ""


@dataclass
class _Position:
    """How much of an attempt's text a reader has, in characters and in UTF-16 code units (as JavaScript counts)."""

    attempt: int
    characters: int = 0
    units: int = 0


def utf16_length(text: str) -> int:
    """Return the length of a text in UTF-16 code units, as JavaScript counts it."""
    return len(text) + sum(letter > "\uffff" for letter in text)


class AnswerEvents:
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
        self._position: _Position | None = None
        self._waiting: QueueStatus | None = None
        self._steps: dict[int, Step] = {}
        """The steps that the reader has, by number."""

    async def stream(self, message: Message, after: str) -> AsyncIterator[StreamEvent | None]:
        """Yield an answer's events (text, steps, queue position, end, title) for one client, until the answer's end.

        `message`: the answer as loaded from the store; `after`: id of the last event that the client has seen, "" if
        none. Yields `None` at least every `CHANGE_TIMEOUT` seconds without an event, so that the caller can do checks.
        """
        self._position = _position(after, message)
        while True:
            live = self._generations.live(self._message)
            seen = 0 if live is None else live.changes.version
            if live is not None and not live.released:
                message = live.snapshot
            for event in self._new_events(message) or [None]:
                yield event
            if not message.state.is_open:
                break
            if live is not None and not live.released:
                await live.changes.wait(seen, CHANGE_TIMEOUT)
                continue
            if self._generations.stopping.is_set():
                return
            await asyncio.sleep(POLL_INTERVAL)
            stored = await self._messages.find(self._owner, self._conversation, self._message)
            if stored is None:
                return  # deleted
            message = stored
        if title := await self._generations.title_after(message):
            yield StreamEvent("title", title)

    def _new_events(self, message: Message) -> Sequence[StreamEvent | None]:
        position = self._position
        events: list[StreamEvent] = []
        if position is None:
            position = self._position = _Position(message.attempt)
        if position.attempt != message.attempt:
            position.attempt, position.characters, position.units = message.attempt, 0, 0
            if not message.text or message.steps or self._steps:
                self._steps.clear()
                events.append(StreamEvent("restart", id=f"{message.attempt}.0"))
        waiting = message.waiting or QueueStatus(None, None)
        if message.state is State.WAITING and self._waiting != waiting:
            self._waiting = waiting
            events.append(StreamEvent("waiting", waiting))
        events += self._new_steps(message)
        if new_text := message.text[position.characters :]:
            at = position.units
            position.characters += len(new_text)
            position.units += utf16_length(new_text)
            events.append(StreamEvent("text", (at, new_text), f"{position.attempt}.{position.characters}"))
        if not message.state.is_open:
            events.append(StreamEvent("failed" if message.state is State.FAILED else "done", message))
        return events

    def _new_steps(self, message: Message) -> list[StreamEvent]:
        changed = [each for each in message.steps if self._steps.get(each.number) != each]
        self._steps |= {each.number: each for each in changed}
        return [StreamEvent("step", each) for each in changed]


def _position(after: str, message: Message) -> _Position | None:
    """Return the position of a reader whose last event id is `after`; `None` if it has none."""
    match = _ID.fullmatch(after)
    if match is None:
        return None
    attempt, characters = int(match[1]), int(match[2])
    if attempt != message.attempt or characters > len(message.text):
        return _Position(-1)  # the client's text is not a prefix of this one: send all of it
    return _Position(attempt, characters, utf16_length(message.text[:characters]))
