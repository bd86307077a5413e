"""Queue of the in-memory broker with order, limits, expiry and dead letters as RabbitMQ 3.10's quorum queues."""

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
    """A message in one queue, or unsettled at a consumer."""

    outgoing: Outgoing
    delivery_count: int = 0
    death_reason: str | None = None
    expires_at: float | None = None


class Target(ABC):
    """Interface of a queue of the in-memory broker that can be bound to an exchange."""

    @abstractmethod
    def accept(self, message: Message) -> bool:
        """Enqueue one routed message; return false if the queue is full."""


class QueueConsumer(ABC):
    """Interface of a consumer of a `MemoryQueue`."""

    priority: int

    @property
    @abstractmethod
    def has_capacity(self) -> bool:
        """Whether the consumer's prefetch allows another unsettled delivery."""

    @abstractmethod
    def deliver(self, message: Message) -> None:
        """Deliver one message to the consumer, which must settle it."""


class MemoryQueue(Target):
    """Ready messages of a queue and its consumers, served round robin.

    Returned messages are delivered first. Only the message at the head expires, delivered ones never.
    """

    def __init__(self, arguments: Mapping[str, str | int], dead_letter: DeadLetter) -> None:
        self.arguments = dict(arguments)
        self._dead_letter = dead_letter
        self._delivery_limit = arguments.get("x-delivery-limit")
        self._max_length = arguments.get("x-max-length")
        self._max_bytes = arguments.get("x-max-length-bytes")
        self._drops_oldest = arguments.get("x-overflow", "drop-head") == "drop-head"
        self._ttl_ms = arguments.get("x-message-ttl")
        self._returned: deque[Message] = deque()
        self._ready: deque[Message] = deque()
        self._ready_bytes = 0
        self._consumers: deque[QueueConsumer] = deque()
        self._expiry: asyncio.TimerHandle | None = None

    def __len__(self) -> int:
        return len(self._returned) + len(self._ready)

    def accept(self, message: Message) -> bool:
        """Enqueue one message; at the limit drop the oldest (`drop-head`) or return false (`reject-publish`)."""
        while self._is_full():
            if not self._drops_oldest:
                return False
            self._pop_head()
        lifetimes = [each for each in (message.outgoing.expires_ms, self._ttl_ms) if each is not None]
        if lifetimes:
            message.expires_at = time.monotonic() + int(min(lifetimes)) / 1000
        self._ready.append(message)
        self._ready_bytes += len(message.outgoing.body)
        self.deliver_ready()
        return True

    def get(self) -> Message | None:
        """Remove and return the queue's next message (basic.get), which then is unsettled.

        `None` if no message is ready.
        """
        self._expire_head()
        message = self._pop_head() if len(self) else None
        self._watch_head()
        return message

    def return_message(self, message: Message, *, requeue: bool) -> None:
        """Requeue a message that a consumer rejected or lost, or dead-letter it at the delivery limit or on request."""
        message.delivery_count += 1
        if not requeue:
            self._dead_letter(self, message, "rejected")
        elif self._delivery_limit is not None and message.delivery_count > int(self._delivery_limit):
            self._dead_letter(self, message, "delivery_limit")
        else:
            self._returned.append(message)
            self._ready_bytes += len(message.outgoing.body)
        self.deliver_ready()

    def add_consumer(self, consumer: QueueConsumer) -> None:
        """Add a consumer to the queue, and deliver ready messages to it within its prefetch."""
        self._consumers.append(consumer)
        self.deliver_ready()

    def remove_consumer(self, consumer: QueueConsumer) -> None:
        """Remove a consumer from the queue, which gets no further messages; does nothing if it is not one."""
        if consumer in self._consumers:
            self._consumers.remove(consumer)

    def deliver_ready(self) -> None:
        """Deliver ready messages to the consumers that have capacity, round robin."""
        self._expire_head()
        while len(self) and (consumer := self._next_consumer()) is not None:
            consumer.deliver(self._pop_head())
            self._expire_head()
        self._watch_head()

    def _next_consumer(self) -> QueueConsumer | None:
        """Return the next consumer of the highest priority that has capacity."""
        best = max(
            (consumer for consumer in self._consumers if consumer.has_capacity),
            key=lambda consumer: consumer.priority,
            default=None,
        )
        if best is not None:  # the first of equals; it moves to the end
            self._consumers.remove(best)
            self._consumers.append(best)
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
        """Schedule the expiry of the message at the head, needed if no consumer is present."""
        if self._expiry is not None:
            self._expiry.cancel()
            self._expiry = None
        if not len(self):
            return
        expires_at = (self._returned or self._ready)[0].expires_at
        if expires_at is not None:
            delay = max(0.0, expires_at - time.monotonic())
            self._expiry = asyncio.get_running_loop().call_later(delay, self.deliver_ready)

    def _is_full(self) -> bool:
        too_many = self._max_length is not None and len(self) >= int(self._max_length)
        too_large = self._max_bytes is not None and self._ready_bytes >= int(self._max_bytes)
        return len(self) > 0 and (too_many or too_large)
