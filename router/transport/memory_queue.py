"""A quorum queue in memory: order, limits, expiry and dead letters, as RabbitMQ 3.10 has them.

Knows no exchanges and no transports: what dies goes to a callback, what is delivered goes to a `Taker`.
"""

from __future__ import annotations

import asyncio
import time
from abc import ABC, abstractmethod
from collections import deque
from collections.abc import Callable, Mapping
from dataclasses import dataclass

from router.transport.base import Outgoing

DeadLetter = Callable[["MemoryQueue", "Message", str], None]


@dataclass(eq=False)
class Message:
    """A message in one queue, or with the consumer that it was delivered to."""

    outgoing: Outgoing
    delivery_count: int = 0
    death_reason: str | None = None
    expires_at: float | None = None


class Target(ABC):
    """What can be bound to an exchange."""

    @abstractmethod
    def accept(self, message: Message) -> bool:
        """Take the message in; false if the queue is full."""


class Taker(ABC):
    """A consumer, as the queue sees it."""

    priority: int

    @property
    @abstractmethod
    def has_room(self) -> bool:
        """Whether it may have another message (prefetch)."""

    @abstractmethod
    def take(self, message: Message) -> None:
        """Have a message."""


class MemoryQueue(Target):
    """Messages that wait, and the consumers that take turns.

    Returned messages come before waiting ones. Only the head expires, whatever lies behind it; nothing expires
    that has been delivered.
    """

    def __init__(self, arguments: Mapping[str, str | int], dead_letter: DeadLetter) -> None:
        self.arguments = dict(arguments)
        self._dead_letter = dead_letter
        self._delivery_limit = arguments.get("x-delivery-limit")
        self._max_length = arguments.get("x-max-length")
        self._max_bytes = arguments.get("x-max-length-bytes")
        self._drops_oldest = arguments.get("x-overflow", "drop-head") == "drop-head"
        self._most_ms = arguments.get("x-message-ttl")
        self._returned: deque[Message] = deque()
        self._ready: deque[Message] = deque()
        self._ready_bytes = 0
        self._takers: deque[Taker] = deque()
        self._expiry: asyncio.TimerHandle | None = None

    def __len__(self) -> int:
        return len(self._returned) + len(self._ready)

    def accept(self, message: Message) -> bool:
        """Queue a message; at the length limit the oldest one goes, or this is false (`reject-publish`)."""
        while self._is_full():
            if not self._drops_oldest:
                return False
            self._pop_head()
        lifetimes = [each for each in (message.outgoing.expires_ms, self._most_ms) if each is not None]
        if lifetimes:
            message.expires_at = time.monotonic() + int(min(lifetimes)) / 1000
        self._ready.append(message)
        self._ready_bytes += len(message.outgoing.body)
        self.serve()
        return True

    def get(self) -> Message | None:
        """Hand out the next message, if one is ready, beside all takers."""
        self._expire_head()
        message = self._pop_head() if len(self) else None
        self._watch_head()
        return message

    def give_back(self, message: Message, *, requeue: bool) -> None:
        """A consumer did not want it, or went away."""
        message.delivery_count += 1
        if not requeue:
            self._dead_letter(self, message, "rejected")
        elif self._delivery_limit is not None and message.delivery_count > int(self._delivery_limit):
            self._dead_letter(self, message, "delivery_limit")
        else:
            self._returned.append(message)
            self._ready_bytes += len(message.outgoing.body)
        self.serve()

    def join(self, taker: Taker) -> None:
        """Have a consumer take its turns."""
        self._takers.append(taker)
        self.serve()

    def leave(self, taker: Taker) -> None:
        """Deliver no more to a consumer."""
        if taker in self._takers:
            self._takers.remove(taker)

    def serve(self) -> None:
        """Deliver what can be delivered, one message to each consumer in turn."""
        self._expire_head()
        while len(self) and (taker := self._next_taker()) is not None:
            taker.take(self._pop_head())
            self._expire_head()
        self._watch_head()

    def _next_taker(self) -> Taker | None:
        """The one whose turn it is among those of the highest priority that have room."""
        best = max((taker for taker in self._takers if taker.has_room), key=lambda taker: taker.priority, default=None)
        if best is not None:  # the first of equals; it goes to the end of the row
            self._takers.remove(best)
            self._takers.append(best)
        return best

    def _pop_head(self) -> Message:
        message = (self._returned or self._ready).popleft()
        self._ready_bytes -= len(message.outgoing.body)
        return message

    def _expire_head(self) -> None:
        while len(self):
            expires_at = (self._returned or self._ready)[0].expires_at
            if expires_at is None or expires_at > time.monotonic():
                return
            self._dead_letter(self, self._pop_head(), "expired")

    def _watch_head(self) -> None:
        """Come back when the head expires, even if nobody consumes."""
        if self._expiry is not None:
            self._expiry.cancel()
            self._expiry = None
        if not len(self):
            return
        expires_at = (self._returned or self._ready)[0].expires_at
        if expires_at is not None:
            delay = max(0.0, expires_at - time.monotonic())
            self._expiry = asyncio.get_running_loop().call_later(delay, self.serve)

    def _is_full(self) -> bool:
        too_many = self._max_length is not None and len(self) >= int(self._max_length)
        too_large = self._max_bytes is not None and self._ready_bytes >= int(self._max_bytes)
        return len(self) > 0 and (too_many or too_large)
