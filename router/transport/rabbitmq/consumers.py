"""RabbitMQ consumers of shared queues and subscriptions to private queues, which survive lost channels."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import AsyncIterator, Mapping, Sequence
from functools import partial
from typing import Any, Generic, TypeVar

import structlog
from pika import exceptions

from router.transport.base import Consumer, Delivery, HeaderValue, Received, Subscription
from router.transport.closable_queue import ClosableQueue
from router.transport.rabbitmq import conversion
from router.transport.rabbitmq.channel import Channel

T = TypeVar("T")

_log = structlog.get_logger(__name__)


class ChannelSession:
    """A consumer's use of one channel: delivery tags are valid on that channel only."""

    def __init__(self, channel: Channel) -> None:
        self._channel = channel
        self.unsettled = 0
        self.lost = False
        self.cancelled = False
        """Whether the consumer was cancelled: the channel is then closed after the last settlement."""

    def settle(self, tag: int, requeue: bool | None) -> None:
        """Acknowledge (`requeue` is `None`) or reject the delivery with this tag.

        No effect if the channel is closed.
        """
        if self.lost:
            return
        try:
            if requeue is None:
                self._channel.ack(tag)
            else:
                self._channel.reject(tag, requeue=requeue)
        except exceptions.AMQPError:
            return  # the channel is closing: the broker redelivers the message
        self.unsettled -= 1
        self.close_if_done()

    def close_if_done(self) -> None:
        """Close the channel if the consumer was cancelled and all deliveries of the channel are settled."""
        if self.cancelled and self.unsettled == 0:
            self._channel.close()


class RabbitMQDelivery(Delivery):
    """A message from a shared queue, delivered on one channel."""

    def __init__(self, session: ChannelSession, method: Any, properties: Any, body: bytes) -> None:
        self._session = session
        self._tag = method.delivery_tag
        self._settled = False
        self.body = body
        self.headers: Mapping[str, HeaderValue] = conversion.plain_headers(properties.headers)
        self.message_id = properties.message_id
        self.exchange = str(method.exchange)
        self.routing_key = method.routing_key
        self.redelivered = bool(method.redelivered)
        self.delivery_count = conversion.delivery_count(properties.headers)
        self.death_reason = conversion.death_reason(properties.headers)

    @property
    def lost(self) -> bool:
        """Whether the delivery's channel was closed: it can't be settled, and the broker delivers its message again."""
        return self._session.lost

    def ack(self) -> None:
        """Acknowledge this message, so that RabbitMQ removes it from its queue."""
        self._settle(None)

    def reject(self, *, requeue: bool) -> None:
        """Reject this message: RabbitMQ puts it back into its queue if `requeue`, else dead-letters it."""
        self._settle(requeue)

    def _settle(self, requeue: bool | None) -> None:
        if self._settled:  # a second ack of a tag closes the channel, with all its deliveries
            _log.warning("delivery settled twice", message_id=self.message_id)
            return
        self._settled = True
        self._session.settle(self._tag, requeue)


class ChannelReader(ABC, Generic[T]):
    """Base of consumer and subscription: sets up each new channel, and queues received messages for the reader."""

    def __init__(self, tag: str) -> None:
        self._tag = tag
        self._received: ClosableQueue[T] = ClosableQueue()
        self._channel: Channel | None = None
        self.finished = False

    @abstractmethod
    async def open(self, channel: Channel) -> None:
        """Start to receive messages on a new channel; called at first and after each loss of a channel."""

    def end(self) -> None:
        """End the reader's iteration after the messages received so far, because the transport is closed."""
        self.finished = True
        self._received.close()


class RabbitMQConsumer(ChannelReader[RabbitMQDelivery], Consumer):
    """An iterator over the deliveries of a shared queue; skips deliveries whose channel is closed."""

    def __init__(self, queue: str, prefetch: int, priority: int, tag: str) -> None:
        super().__init__(tag)
        self._queue = queue
        self._prefetch = prefetch
        self._priority = priority
        self._session: ChannelSession | None = None

    async def open(self, channel: Channel) -> None:
        """Start consuming the shared queue on a new channel; called at first and after each loss of a channel."""
        session = ChannelSession(channel)
        await channel.consume(
            self._queue,
            partial(self._deliver, session),
            tag=self._tag,
            auto_ack=False,
            prefetch=self._prefetch,
            priority=self._priority,
        )
        self._channel, self._session = channel, session
        channel.when_lost(partial(self._lost, session))

    async def __aiter__(self) -> AsyncIterator[Delivery]:
        async for delivery in self._received:
            if not delivery.lost:
                yield delivery

    async def cancel(self) -> None:
        """Stop new deliveries of the queue; the channel is closed when all its deliveries are settled."""
        if self.finished:
            return
        self.finished = True
        channel, session = self._channel, self._session
        if channel is not None and session is not None:
            await _cancel_quietly(channel, self._tag)
            session.cancelled = True
            session.close_if_done()
        self._received.close()

    def _deliver(self, session: ChannelSession, method: Any, properties: Any, body: bytes) -> None:
        session.unsettled += 1
        self._received.put(RabbitMQDelivery(session, method, properties, body))

    def _lost(self, session: ChannelSession, _reason: BaseException) -> None:
        session.lost = True
        self._channel = self._session = None


class RabbitMQSubscription(ChannelReader[Received], Subscription):
    """An iterator over the messages of a private queue, a new queue on each new channel."""

    def __init__(
        self, exchange: str, routing_keys: Sequence[str], arguments: Mapping[str, str | int], tag: str
    ) -> None:
        super().__init__(tag)
        self._exchange = exchange
        self._routing_keys = tuple(routing_keys)
        self._arguments = arguments

    async def open(self, channel: Channel) -> None:
        """Declare, bind and consume a new private queue on a new channel; called at first and after each loss."""
        queue = await channel.declare_private(self._arguments)
        for routing_key in self._routing_keys:
            await channel.bind(queue, self._exchange, routing_key)
        await channel.consume(queue, self._deliver, tag=self._tag, auto_ack=True)
        self._channel = channel
        channel.when_lost(self._lost)

    async def __aiter__(self) -> AsyncIterator[Received]:
        async for received in self._received:
            yield received

    async def close(self) -> None:
        """Delete the private queue by cancelling its consumer, so that iteration over its messages ends."""
        if self.finished:
            return
        self.finished = True
        if (channel := self._channel) is not None:
            await _cancel_quietly(channel, self._tag)
            channel.close()
        self._received.close()

    def _deliver(self, method: Any, properties: Any, body: bytes) -> None:
        self._received.put(Received(method.routing_key, body, conversion.plain_headers(properties.headers)))

    def _lost(self, _reason: BaseException) -> None:
        self._channel = None


async def _cancel_quietly(channel: Channel, tag: str) -> None:
    try:
        await channel.cancel(tag)
    except (exceptions.AMQPError, TimeoutError) as error:
        _log.debug("consumer not cancelled, its channel is closing", reason=conversion.describe(error))
