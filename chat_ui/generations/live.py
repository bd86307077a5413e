"""An answer that this process is writing: what there is of it by now, for anybody who looks. Knows no store."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, field, replace

from chat_ui.history.records import Message, State, TokenUsage, Waiting


@dataclass
class LiveAnswer:
    """Written by one task, read by any number; `text` is kept in pieces, so that a token costs no more than itself."""

    message: Message
    """As it was when this process began."""
    pieces: list[str] = field(default_factory=list)
    length: int = 0
    attempt: int = 0
    waiting: Waiting | None = None
    state: State = State.WAITING
    usage: TokenUsage = field(default_factory=TokenUsage)
    cost: int = 0
    first_token_seconds: float | None = None
    ended: Message | None = None
    """As it is stored, at the end."""
    left: bool = False
    """Somebody else goes on with it, or nobody."""
    version: int = 0
    """Grows with everything new."""
    _changed: asyncio.Event = field(default_factory=asyncio.Event)

    @property
    def text(self) -> str:
        """All of it."""
        if len(self.pieces) > 1:
            self.pieces = ["".join(self.pieces)]
        return self.pieces[0] if self.pieces else ""

    @property
    def now(self) -> Message:
        """The answer as it is now."""
        if self.ended is not None:
            return self.ended
        return replace(self.message, text=self.text, state=self.state, attempt=self.attempt, waiting=self.waiting)

    def add(self, text: str) -> None:
        """More of it."""
        self.pieces.append(text)
        self.length += len(text)
        self.state = State.RUNNING
        self.wake()

    def begin_again(self) -> None:
        """Drop the text."""
        self.pieces.clear()
        self.length = 0
        self.attempt += 1
        self.wake()

    def wake(self) -> None:
        """Tell whoever waits that something is new."""
        self.version += 1
        self._changed.set()
        self._changed = asyncio.Event()

    async def news(self, seen: int, seconds: float) -> None:
        """Wait for something newer than the version `seen`, `seconds` at most."""
        if self.version != seen:
            return
        try:
            async with asyncio.timeout(seconds):
                await self._changed.wait()
        except TimeoutError:
            return
