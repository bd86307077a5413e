"""In-memory broker and its transport, which behave as RabbitMQ does within one process: for `headrace serve` and tests.

`MemoryBroker` is the shared state, `MemoryTransport` a component's connection to it. It implements what Headrace relies
on of quorum queues (prefetch, round robin, returned messages first, delivery count and limit, expiry at the head, dead
letters with a reason, reject-publish at the length limit, mandatory returns) and passes the same contract tests as
RabbitMQ. No persistence, no permissions.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Mapping, Sequence
from dataclasses import replace

from router.errors import BrokerRefused, BrokerUnavailable, QueueFull, Unroutable
from router.topology import Topology
from router.transport.base import (
    Browser,
    ConnectionState,
    Consumer,
    Delivery,
    Outgoing,
    Received,
    ReturnCallback,
    Subscription,
    Transport,
)
from router.transport.closable_queue import ClosableQueue
from router.transport.memory_queue import MemoryQueue, Message, QueueConsumer, Target

_Arguments = Mapping[str, str | int]


class MemoryBroker:
    """In-memory broker: exchanges, bindings and queues, shared by the transports of one process."""

    def __init__(self) -> None:
        self._exchanges: dict[str, str] = {}
        self._bindings: list[tuple[str, str, Target]] = []
        self._queues: dict[str, MemoryQueue] = {}
        self.alarm = False
        """Whether publishers are blocked, as in a memory alarm; set by tests."""

    def declare(self, topology: Topology) -> None:
        """Create the exchanges, queues and bindings of `topology` in this broker, unless they exist.

        Raises:
            BrokerRefused: an exchange or queue exists with another type or other arguments.
        """
        for exchange in topology.exchanges:
            if self._exchanges.setdefault(exchange.name, exchange.type) != exchange.type:
                raise BrokerRefused(f"406 PRECONDITION_FAILED - inequivalent arg 'type' for exchange {exchange.name}")
        for queue in topology.queues:
            existing = self._queues.setdefault(queue.name, MemoryQueue(dict(queue.arguments), self._dead_letter))
            if existing.arguments != dict(queue.arguments):
                raise BrokerRefused(f"406 PRECONDITION_FAILED - inequivalent arguments for queue {queue.name}")
        for binding in topology.bindings:
            self.bind(binding.exchange, binding.routing_key, self.queue(binding.queue))

    def queue(self, name: str) -> MemoryQueue:
        """Return this broker's durable queue with this name.

        Raises:
            BrokerRefused: no queue has that name.
        """
        if name not in self._queues:
            raise BrokerRefused(f"404 NOT_FOUND - no queue '{name}'")
        return self._queues[name]

    def bind(self, exchange: str, routing_key: str, target: Target) -> None:
        """Bind a queue to an exchange of this broker with a routing key (idempotent).

        Raises:
            BrokerRefused: there is no such exchange.
        """
        if exchange not in self._exchanges:
            raise BrokerRefused(f"404 NOT_FOUND - no exchange '{exchange}'")
        binding = (exchange, routing_key, target)
        if binding not in self._bindings:
            self._bindings.append(binding)

    def unbind(self, target: Target) -> None:
        """Remove all bindings of a private queue, which then gets no further messages."""
        self._bindings = [binding for binding in self._bindings if binding[2] is not target]

    def route(self, message: Outgoing) -> list[Target]:
        """Return the queues to which an exchange's bindings route this message, each once; empty if unroutable."""
        kind = self._exchanges.get(message.exchange)
        targets: list[Target] = []
        for exchange, pattern, target in self._bindings:
            if exchange == message.exchange and _matches(kind, pattern, message.routing_key) and target not in targets:
                targets.append(target)
        return targets

    def _dead_letter(self, queue: MemoryQueue, message: Message, reason: str) -> None:
        exchange = queue.arguments.get("x-dead-letter-exchange")
        if exchange is None:
            return
        routing_key = queue.arguments.get("x-dead-letter-routing-key", message.outgoing.routing_key)
        dead = replace(message.outgoing, exchange=str(exchange), routing_key=str(routing_key), expires_ms=None)
        for target in self.route(dead):
            target.accept(Message(dead, death_reason=reason))


class MemoryTransport(Transport):
    """A component's connection to a `MemoryBroker`."""

    def __init__(self, broker: MemoryBroker, name: str) -> None:
        self._broker = broker
        self._name = name
        self._running = False
        self._return_callbacks: list[ReturnCallback] = []
        self._holders: list[_UnsettledMessages] = []
        self._subscriptions: list[_MemorySubscription] = []

    async def start(self) -> None:
        """Connect to the in-memory broker, so that `state` becomes `UP`."""
        self._running = True

    async def close(self) -> None:
        """Disconnect from the in-memory broker; unsettled deliveries return to their queues."""
        self._running = False
        for holder in self._holders:
            holder.return_all()
        for subscription in self._subscriptions:
            await subscription.close()

    @property
    def state(self) -> ConnectionState:
        """State of the connection: `UP` between `start` and `close`; `BLOCKED` while the broker has an alarm."""
        if not self._running:
            return ConnectionState.DOWN
        return ConnectionState.BLOCKED if self._broker.alarm else ConnectionState.UP

    @property
    def lost_at(self) -> float:
        """Monotonic time of the last loss of the connection: always `-inf`, as it can't be lost."""
        return float("-inf")

    @property
    def unconfirmed(self) -> int:
        """Number of publishes in progress: always 0, as the in-memory broker confirms at once."""
        return 0

    @property
    def unsent_bytes(self) -> int:
        """Number of unsent bytes: always 0, as messages to the in-memory broker are not buffered."""
        return 0

    async def declare(self, topology: Topology) -> None:
        """Create durable exchanges, queues and bindings in the in-memory broker, unless they exist."""
        self._check_running()
        self._broker.declare(topology)

    async def publish(self, message: Outgoing) -> None:
        """Put one message into the queues it is routed to; confirmed at once.

        Raises the errors of `Transport.publish`.
        """
        if self.state is not ConnectionState.UP:
            raise BrokerUnavailable(f"the in-memory broker is {self.state.value}")
        await asyncio.sleep(0)  # other tasks run, as they do with a real broker
        targets = self._broker.route(message)
        if not targets:
            raise Unroutable(f"no queue is bound to {message.exchange} for {message.routing_key}")
        accepted = [target.accept(Message(message)) for target in targets]
        if not all(accepted):
            raise QueueFull(f"the queue for {message.routing_key} is at its limit")

    def publish_unconfirmed(self, message: Outgoing, *, mandatory: bool = False) -> None:
        """Put one message into its queues, unconfirmed.

        If `mandatory` and unroutable, `on_return` callbacks are called.
        """
        self._check_running()
        targets = self._broker.route(message)
        for target in targets:
            target.accept(Message(message))
        if mandatory and not targets:
            asyncio.get_running_loop().call_soon(self._returned, message)

    def on_return(self, callback: ReturnCallback) -> None:
        """Register `callback`, called with each message published unconfirmed that can't be routed."""
        self._return_callbacks.append(callback)

    async def consume(self, queue: str, *, prefetch: int, priority: int = 0) -> Consumer:
        """Start consuming a durable queue.

        Return an iterator over deliveries, at most `prefetch` unsettled at a time.
        """
        self._check_running()
        consumer = _MemoryConsumer(self._broker.queue(queue), prefetch, priority)
        self._holders.append(consumer)
        return consumer

    async def browse(self, queue: str) -> Browser:
        """Open a browser on a durable queue, which gets single messages; unsettled ones return when it closes."""
        self._check_running()
        browser = _MemoryBrowser(self._broker.queue(queue))
        self._holders.append(browser)
        return browser

    async def subscribe(self, exchange: str, routing_keys: Sequence[str], *, arguments: _Arguments) -> Subscription:
        """Create a private queue bound to `exchange` by each routing key; return an iterator over its messages."""
        self._check_running()
        subscription = _MemorySubscription(self._broker, arguments)
        for routing_key in routing_keys:
            self._broker.bind(exchange, routing_key, subscription)
        self._subscriptions.append(subscription)
        return subscription

    def _check_running(self) -> None:
        if not self._running:
            raise BrokerUnavailable("the in-memory broker is down")

    def _returned(self, message: Outgoing) -> None:
        for callback in self._return_callbacks:
            callback(message)


class _MemoryDelivery(Delivery):
    def __init__(self, holder: _UnsettledMessages, message: Message) -> None:
        self._holder = holder
        self._message = message
        self.body = message.outgoing.body
        self.headers = message.outgoing.headers
        self.message_id = message.outgoing.message_id
        self.exchange = message.outgoing.exchange
        self.routing_key = message.outgoing.routing_key
        self.redelivered = message.delivery_count > 0
        self.delivery_count = message.delivery_count
        self.death_reason = message.death_reason

    @property
    def lost(self) -> bool:
        return self._holder.closed

    def ack(self) -> None:
        if self._holder.release(self._message):
            self._holder.queue.deliver_ready()

    def reject(self, *, requeue: bool) -> None:
        if self._holder.release(self._message):
            self._holder.queue.return_message(self._message, requeue=requeue)


class _UnsettledMessages:
    """Holds unsettled messages of a queue; base of consumer and browser."""

    def __init__(self, queue: MemoryQueue) -> None:
        self.queue = queue
        self.closed = False
        self._unsettled: list[Message] = []

    def release(self, message: Message) -> bool:
        """Remove one message from the unsettled ones; return whether it was among them."""
        if not any(message is unsettled for unsettled in self._unsettled):
            return False
        self._unsettled = [unsettled for unsettled in self._unsettled if unsettled is not message]
        return True

    def return_all(self) -> None:
        """Put all unsettled messages back into the queue, in order."""
        self.closed = True
        unsettled, self._unsettled = self._unsettled, []
        for message in unsettled:
            self.queue.return_message(message, requeue=True)


class _MemoryBrowser(_UnsettledMessages, Browser):
    async def get(self) -> Delivery | None:
        message = None if self.closed else self.queue.get()
        if message is None:
            return None
        self._unsettled.append(message)
        return _MemoryDelivery(self, message)

    async def close(self) -> None:
        self.return_all()


class _MemoryConsumer(_UnsettledMessages, Consumer, QueueConsumer):
    def __init__(self, queue: MemoryQueue, prefetch: int, priority: int) -> None:
        super().__init__(queue)
        self.priority = priority
        self._prefetch = prefetch
        self._received: ClosableQueue[_MemoryDelivery] = ClosableQueue()
        queue.add_consumer(self)

    @property
    def has_capacity(self) -> bool:
        return len(self._unsettled) < self._prefetch

    def deliver(self, message: Message) -> None:
        self._unsettled.append(message)
        self._received.put(_MemoryDelivery(self, message))

    async def __aiter__(self) -> AsyncIterator[Delivery]:
        async for delivery in self._received:
            if not delivery.lost:
                yield delivery

    async def cancel(self) -> None:
        self.queue.remove_consumer(self)
        self._received.close()

    def return_all(self) -> None:
        """Stop consuming, and put all unsettled messages back into the queue."""
        self.queue.remove_consumer(self)
        super().return_all()
        self._received.close()


class _MemorySubscription(Subscription, Target):
    """A private queue with its only reader; drops its oldest message when it is full."""

    def __init__(self, broker: MemoryBroker, arguments: _Arguments) -> None:
        self._broker = broker
        self._max_length = int(arguments.get("x-max-length", 2**63))
        self._max_bytes = int(arguments.get("x-max-length-bytes", 2**63))
        self._received: ClosableQueue[Received] = ClosableQueue()
        self._length = 0
        self._bytes = 0
        self._closed = False

    def accept(self, message: Message) -> bool:
        outgoing = message.outgoing
        self._received.put(Received(outgoing.routing_key, outgoing.body, outgoing.headers))
        self._count(1, len(outgoing.body))
        while self._length > self._max_length or self._bytes > self._max_bytes:
            oldest = self._received.pop_oldest()
            if oldest is None:
                break
            self._count(-1, -len(oldest.body))
        return True

    async def __aiter__(self) -> AsyncIterator[Received]:
        async for received in self._received:
            self._count(-1, -len(received.body))
            yield received

    async def close(self) -> None:
        if self._closed:
            return
        self._closed = True
        self._broker.unbind(self)
        self._received.close()

    def _count(self, messages: int, size: int) -> None:
        self._length += messages
        self._bytes += size


def _matches(kind: str | None, pattern: str, routing_key: str) -> bool:
    if kind == "fanout":
        return True
    if kind == "topic":
        return _topic_matches(pattern.split("."), routing_key.split("."))
    return kind == "direct" and pattern == routing_key


def _topic_matches(pattern: list[str], words: list[str]) -> bool:
    """Match a topic pattern (AMQP 0-9-1, 3.1.3.3): `*` is one word, `#` is zero or more words."""
    if not pattern:
        return not words
    if pattern[0] == "#":
        return _topic_matches(pattern[1:], words) or (bool(words) and _topic_matches(pattern, words[1:]))
    return bool(words) and pattern[0] in ("*", words[0]) and _topic_matches(pattern[1:], words[1:])
