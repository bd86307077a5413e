"""The transport port: AMQP 0-9-1 as far as Headrace needs it, and nothing of pika.

Bytes in, bytes out: a transport does not know what a job is (`router/bus.py` does). All methods are called on one
asyncio event loop; an implementation may do its work on a thread of its own.

Two ways to send, because they cost differently: `publish` waits for the broker's word (jobs, money), `post`
does not wait (token windows, heartbeats). Two ways to receive: `consume` shares a durable queue and must
acknowledge, `subscribe` has a private queue that lives as long as the connection and loses messages without
complaint. Both go on by themselves after a reconnect.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from enum import Enum

from router.topology import Topology

HeaderValue = str | int


@dataclass(frozen=True)
class Outgoing:
    """A message to be sent. `expires_ms`: dropped from the head of the queue after so long."""

    exchange: str
    routing_key: str
    body: bytes
    headers: Mapping[str, HeaderValue] = field(default_factory=dict)
    message_id: str | None = None
    persistent: bool = False
    expires_ms: int | None = None


@dataclass(frozen=True)
class Received:
    """A message from a private queue: already acknowledged."""

    routing_key: str
    body: bytes
    headers: Mapping[str, HeaderValue] = field(default_factory=dict)


class Delivery(ABC):
    """A message from a shared queue, ours until settled by exactly one of `ack` and `reject`.

    If the connection goes, the broker gives the message to somebody else: settling it afterwards does nothing
    and `lost` is true.
    """

    body: bytes
    headers: Mapping[str, HeaderValue]
    message_id: str | None
    routing_key: str
    redelivered: bool
    delivery_count: int
    """How often the broker has had this message returned to it (`x-delivery-count`; 0 at first)."""
    death_reason: str | None
    """Why it was dead-lettered (`rejected`, `expired`, `delivery_limit`), if it was."""

    @property
    @abstractmethod
    def lost(self) -> bool:
        """Whether the channel it came on has gone."""

    @abstractmethod
    def ack(self) -> None:
        """It is done with."""

    @abstractmethod
    def reject(self, *, requeue: bool) -> None:
        """Give it back (`requeue`), or dead-letter it."""


class Consumer(ABC):
    """A stream of deliveries. Iterating ends after `cancel` when what was delivered has been read."""

    @abstractmethod
    def __aiter__(self) -> AsyncIterator[Delivery]: ...

    @abstractmethod
    async def cancel(self) -> None:
        """No new deliveries (basic.cancel). Those already here may still be settled."""


class Browser(ABC):
    """A look into a durable queue: what was got and is not settled goes back when it is closed, or its process ends."""

    @abstractmethod
    async def get(self) -> Delivery | None:
        """The next message; `None`: no other one is ready.

        Raises:
            BrokerRefused: no such queue, or no permission.
            BrokerUnavailable: the connection is gone, or there is no answer.
        """

    @abstractmethod
    async def close(self) -> None:
        """Give everything back that is not settled, in its order."""


class Subscription(ABC):
    """A stream of messages from a private queue."""

    @abstractmethod
    def __aiter__(self) -> AsyncIterator[Received]: ...

    @abstractmethod
    async def close(self) -> None:
        """Give the queue up; iterating ends."""


class ConnectionState(Enum):
    """Whether a publish has a chance. Read from a local flag, so it costs nothing to ask."""

    UP = "up"
    BLOCKED = "blocked"
    """The broker has a memory or disk alarm and takes no publishes."""
    DOWN = "down"


ReturnCallback = Callable[[Outgoing], None]
"""Called on the event loop with a posted message for which no queue was bound."""


class Transport(ABC):
    """A connection to the broker that mends itself."""

    @abstractmethod
    async def start(self) -> None:
        """Connect.

        Raises:
            BrokerUnavailable: no connection within the time allowed; the message says to what and why.
        """

    @abstractmethod
    async def close(self) -> None:
        """Flush confirms, then disconnect. Unsettled deliveries go back to their queues."""

    @property
    @abstractmethod
    def state(self) -> ConnectionState:
        """The publishing connection's state."""

    @property
    @abstractmethod
    def lost_at(self) -> float:
        """When a connection was last lost, by the monotonic clock; `-inf`: never."""

    @property
    @abstractmethod
    def unsent_bytes(self) -> int:
        """Bytes given to `post` and not yet handed to the operating system."""

    @property
    @abstractmethod
    def unconfirmed(self) -> int:
        """Publishes that wait for the broker's word, or for their turn to be sent."""

    @abstractmethod
    async def declare(self, topology: Topology) -> None:
        """Declare durable objects (idempotent)."""

    @abstractmethod
    async def publish(self, message: Outgoing) -> None:
        """Send and wait for the broker's confirmation; always `mandatory`.

        Raises:
            Unroutable, QueueFull, BrokerUnavailable: it was not queued.
            PublishUnknown: no answer; it may be queued.
        """

    @abstractmethod
    def post(self, message: Outgoing, *, mandatory: bool = False) -> None:
        """Send without waiting. If `mandatory` and unroutable, the `on_return` callbacks hear of it.

        Raises:
            BrokerUnavailable: the connection is down (a blocked one takes and buffers it).
        """

    @abstractmethod
    def on_return(self, callback: ReturnCallback) -> None:
        """Call `callback` for each posted message that comes back."""

    @abstractmethod
    async def consume(self, queue: str, *, prefetch: int, priority: int = 0) -> Consumer:
        """Take messages from a durable queue, at most `prefetch` unsettled at a time, on a channel of its own.

        A message goes to a consumer of the highest `priority` that has room; equals take turns.
        """

    @abstractmethod
    async def browse(self, queue: str) -> Browser:
        """Look into a durable queue, whoever else takes from it. Does not survive the loss of the connection."""

    @abstractmethod
    async def subscribe(
        self,
        exchange: str,
        routing_keys: Sequence[str],
        *,
        arguments: Mapping[str, str | int],
    ) -> Subscription:
        """Open a private (exclusive, server-named) queue bound to `exchange` by each key.

        Returns once the bindings exist: nothing published afterwards is missed. After a
        reconnect a new queue is bound to the same keys; what was published in between is lost.
        """
