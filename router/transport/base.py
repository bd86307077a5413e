"""Interface of a transport, a connection to a message broker: the subset of AMQP 0-9-1 that Headrace uses.

Message bodies are bytes (`router/bus.py` encodes them). All methods must be called on one asyncio event loop.

Two ways to send: `publish` waits for the publisher confirm (jobs, usage records), `publish_unconfirmed` does not (token
windows, heartbeats). Two ways to receive: `consume` shares a durable queue and must acknowledge; `subscribe` has a
private queue that lives as long as the connection and may lose messages. Both resume after a reconnect.
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
    """A message to send. `expires_ms`: time to live, after which the message is dropped from the head of its queue."""

    exchange: str
    routing_key: str
    body: bytes
    headers: Mapping[str, HeaderValue] = field(default_factory=dict)
    message_id: str | None = None
    persistent: bool = False
    expires_ms: int | None = None


@dataclass(frozen=True)
class Received:
    """A message received from a private queue; needs no acknowledgement."""

    routing_key: str
    body: bytes
    headers: Mapping[str, HeaderValue] = field(default_factory=dict)


class Delivery(ABC):
    """A message from a shared queue, to be settled by exactly one call of `ack` or `reject`.

    If the connection is lost, the broker redelivers the message; `lost` is then true, and settling has no effect.
    """

    body: bytes
    headers: Mapping[str, HeaderValue]
    message_id: str | None
    exchange: str
    """Exchange that the message was published to, as the broker states it."""
    routing_key: str
    redelivered: bool
    delivery_count: int
    """How often this message was returned to the broker (`x-delivery-count`; 0 at first)."""
    death_reason: str | None
    """Why it was dead-lettered (`rejected`, `expired`, `delivery_limit`), if it was."""

    @property
    @abstractmethod
    def lost(self) -> bool:
        """Whether the delivery's channel was closed: if unsettled, the broker delivers the message again."""

    @abstractmethod
    def ack(self) -> None:
        """Acknowledge this message, so that the broker removes it from its queue."""

    @abstractmethod
    def reject(self, *, requeue: bool) -> None:
        """Reject this message: the broker puts it back into its queue if `requeue`, else dead-letters it."""


class Consumer(ABC):
    """Iterator over a shared queue's deliveries. It ends after `cancel` and the deliveries already received."""

    @abstractmethod
    def __aiter__(self) -> AsyncIterator[Delivery]: ...

    @abstractmethod
    async def cancel(self) -> None:
        """Stop new deliveries (basic.cancel). Iteration ends; deliveries already received may still be settled."""


class Browser(ABC):
    """Reader of single messages of a durable queue; unsettled ones return to the queue when the browser ends."""

    @abstractmethod
    async def get(self) -> Delivery | None:
        """Take the queue's next message, which must then be settled; return `None` if no message is ready.

        Raises:
            BrokerRefused: no such queue, or no permission.
            BrokerUnavailable: the connection was lost, or the broker did not answer.
        """

    @abstractmethod
    async def close(self) -> None:
        """End the browsing: all unsettled messages go back to the queue, in their order."""


class Subscription(ABC):
    """An iterator over the messages of a private queue, which needs no acknowledgements."""

    @abstractmethod
    def __aiter__(self) -> AsyncIterator[Received]: ...

    @abstractmethod
    async def close(self) -> None:
        """Delete the private queue at the broker, so that iteration over its messages ends."""


class ConnectionState(Enum):
    """State of a transport's publishing connection, read from a local flag."""

    UP = "up"
    BLOCKED = "blocked"
    """The broker has a memory or disk alarm and accepts no publishes."""
    DOWN = "down"


ReturnCallback = Callable[[Outgoing], None]
"""Called on the event loop with a message published unconfirmed that was returned as unroutable."""


class Transport(ABC):
    """Interface of a connection to the broker that reconnects by itself."""

    @abstractmethod
    async def start(self) -> None:
        """Connect to the broker; afterwards the transport reconnects by itself.

        Raises:
            BrokerUnavailable: no connection before the timeout; the message names the broker and the reason.
        """

    @abstractmethod
    async def close(self) -> None:
        """Wait for outstanding publisher confirms, then disconnect. Unsettled deliveries return to their queues."""

    @property
    @abstractmethod
    def state(self) -> ConnectionState:
        """State of the publishing connection: up, blocked by the broker, or down."""

    @property
    @abstractmethod
    def lost_at(self) -> float:
        """Monotonic time at which a connection to the broker was last lost; `-inf` if never."""

    @property
    @abstractmethod
    def unsent_bytes(self) -> int:
        """Number of bytes of published messages, confirmed or not, that are not written yet to the socket."""

    @property
    @abstractmethod
    def unconfirmed(self) -> int:
        """Number of calls of `publish` in progress: not confirmed by the broker yet, or not sent yet."""

    @abstractmethod
    async def declare(self, topology: Topology) -> None:
        """Declare the durable exchanges, queues and bindings of `topology` at the broker (idempotent)."""

    @abstractmethod
    async def publish(self, message: Outgoing) -> None:
        """Send one message and wait for the broker's confirm; always `mandatory`: fails if no queue is bound.

        Raises:
            Unroutable, QueueFull, BrokerUnavailable: the message was not queued.
            PublishUnknown: no confirm arrived; the message may be queued.
        """

    @abstractmethod
    def publish_unconfirmed(self, message: Outgoing, *, mandatory: bool = False) -> None:
        """Send one message without a confirm.

        If `mandatory` and no queue is bound, the `on_return` callbacks are called.

        Raises:
            BrokerUnavailable: the connection is down (a blocked one buffers the message).
        """

    @abstractmethod
    def on_return(self, callback: ReturnCallback) -> None:
        """Register `callback`, called with each message published unconfirmed that the broker returns as unroutable."""

    @abstractmethod
    async def consume(self, queue: str, *, prefetch: int, priority: int = 0) -> Consumer:
        """Start consuming a durable queue; return an iterator over deliveries, at most `prefetch` unsettled at a time.

        A message goes to the consumer of the highest `priority` that has capacity; equal consumers take turns.
        """

    @abstractmethod
    async def browse(self, queue: str) -> Browser:
        """Open a browser on a durable queue, which gets single messages beside the queue's consumers.

        The browser ends with the connection; unsettled messages return to the queue when it closes.
        """

    @abstractmethod
    async def subscribe(
        self,
        exchange: str,
        routing_keys: Sequence[str],
        *,
        arguments: Mapping[str, str | int],
    ) -> Subscription:
        """Create a private (exclusive, server-named) queue bound to `exchange` by each routing key.

        Return its message iterator.

        Returns once the bindings exist: no message published afterwards is missed. After a reconnect a new queue is
        bound to the same keys; messages published in between are lost.
        """
