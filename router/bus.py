"""Typed message bus: publishes and consumes Headrace's messages (jobs, replies, heartbeats, ...), by queue and type.

The only module that combines `messages`, `topology` and a `Transport`. Undecodable messages of shared queues are
dead-lettered with a reason; those of private queues are logged and dropped.
"""

from __future__ import annotations

import time
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Generic, TypeVar

import structlog

from router import messages, topology
from router.control_signing import ControlSigner
from router.diagnosis import REASON_HEADER, Diagnosis
from router.errors import MessageTooLarge, PublishError, UndecodableMessage, UntrustedControl
from router.messages import Codec, Control, Job, Receipt, ServiceClass, Settlement, Window, WorkerStatus
from router.transport.base import (
    Browser,
    ConnectionState,
    Consumer,
    Delivery,
    HeaderValue,
    Outgoing,
    Received,
    Subscription,
    Transport,
)

T = TypeVar("T")

MAX_JOB_BYTES = 15 * 2**20
"""Most bytes of an encoded job: a margin below RabbitMQ's `max_message_size` of 16 MiB (infra/rabbitmq/rabbitmq.conf).

The broker closes the channel of a larger message, and with it fails all publishes of the process that are in flight.
"""
FORGED_RECEIPT = f"a receipt that was not published to {topology.RECEIPTS_EXCHANGE}"
"""Reason with which receipts are parked that a worker may have forged."""

_log = structlog.get_logger(__name__)


@dataclass(frozen=True)
class Envelope(Generic[T]):
    """A decoded message of a shared queue with its delivery, which must be acknowledged or rejected."""

    message: T
    delivery: Delivery


class TypedConsumer(Generic[T]):
    """An iterator over the decoded messages of a shared queue; an undecodable one is dead-lettered with its reason.

    So is one that `check` refuses by raising `UndecodableMessage`.
    """

    def __init__(
        self,
        consumer: Consumer,
        codec: Codec[T],
        dead_letter: Callable[[Delivery, str], Awaitable[None]],
        check: Callable[[T, Delivery], None] = lambda _message, _delivery: None,
    ) -> None:
        self._consumer = consumer
        self._codec = codec
        self._dead_letter = dead_letter
        self._check = check

    async def __aiter__(self) -> AsyncIterator[Envelope[T]]:
        async for delivery in self._consumer:
            try:
                message = self._codec.decode(delivery.body)
                self._check(message, delivery)
            except UndecodableMessage as error:
                await self._dead_letter(delivery, str(error))
                continue
            yield Envelope(message, delivery)

    async def cancel(self) -> None:
        """Stop new deliveries from the shared queue (basic.cancel).

        Iteration ends after the messages already received.
        """
        await self._consumer.cancel()


class TypedSubscription(Generic[T]):
    """An iterator over a private queue's decoded messages; logs and drops undecodable and not accepted ones."""

    def __init__(
        self, subscription: Subscription, codec: Codec[T], name: str, accepts: Callable[[Received], bool] | None = None
    ) -> None:
        self._subscription = subscription
        self._codec = codec
        self._name = name
        self._accepts = accepts

    async def __aiter__(self) -> AsyncIterator[T]:
        async for received in self._subscription:
            if self._accepts is not None and not self._accepts(received):
                continue
            try:
                yield self._codec.decode(received.body)
            except UndecodableMessage as error:
                _log.warning("undecodable message dropped", feed=self._name, reason=str(error))

    async def close(self) -> None:
        """Delete the private queue at the broker, so that iteration over its messages ends."""
        await self._subscription.close()


class Bus:
    """Publishes and consumes typed messages. One instance per process, over one transport.

    Args:
        transport: the connection to the broker.
        signer: signs outgoing control messages and verifies incoming ones; `None` only with the in-memory broker,
            which no other process can reach.
    """

    def __init__(self, transport: Transport, signer: ControlSigner | None = None) -> None:
        self._transport = transport
        self._signer = signer
        self._control_rejected: Callable[[str], None] = lambda _reason: None

    @property
    def state(self) -> ConnectionState:
        """State of the publishing connection to the broker: a publish can succeed only while it is `UP`.

        Read from a local flag.
        """
        return self._transport.state

    @property
    def lost_at(self) -> float:
        """Monotonic time at which a connection of this process to the broker was last lost; `-inf` if never."""
        return self._transport.lost_at

    @property
    def unsent_bytes(self) -> int:
        """Number of bytes of published messages that are not written yet to the publishing connection's socket."""
        return self._transport.unsent_bytes

    @property
    def unconfirmed(self) -> int:
        """Number of publishes of this process that the broker has not confirmed yet, or that are not sent yet."""
        return self._transport.unconfirmed

    async def start(self, *, declares_platform: bool = True) -> None:
        """Connect to the broker, and if `declares_platform` declare the exchanges and queues of every installation.

        Workers do not declare these: a broker user that may declare a queue may delete it.
        """
        await self._transport.start()
        if declares_platform:
            await self._transport.declare(topology.platform())

    async def close(self) -> None:
        """Wait for outstanding publisher confirms, then disconnect; unsettled deliveries return to their queues."""
        await self._transport.close()

    # Jobs

    async def declare_model(self, model: str) -> None:
        """Declare the job queues of one model at the broker. Call it at start-up only, never per request."""
        await self._transport.declare(topology.model(model))

    async def publish_job(self, job: Job, headers: Mapping[str, HeaderValue]) -> None:
        """Publish one job to its model's queue, and wait for the publisher confirm; the queue drops it at its deadline.

        Raises:
            MessageTooLarge: the encoded job has more than `MAX_JOB_BYTES`; nothing was sent.
            Unroutable, QueueFull, BrokerUnavailable: the job was not queued.
            PublishUnknown: no confirm arrived; the job may be queued.
        """
        body = messages.encode(job)
        if len(body) > MAX_JOB_BYTES:
            raise MessageTooLarge(f"a job has {MAX_JOB_BYTES} bytes at most, and this one has {len(body)}")
        remaining_ms = max(1, int((job.deadline - time.time()) * 1000))
        await self._transport.publish(
            Outgoing(
                exchange=topology.JOBS_EXCHANGE,
                routing_key=topology.job_routing_key(job.model, job.service_class),
                body=body,
                headers=headers,
                message_id=job.id,
                persistent=True,
                expires_ms=remaining_ms,
            )
        )

    async def jobs(
        self, model: str, service_class: ServiceClass, *, prefetch: int, priority: int = 0
    ) -> TypedConsumer[Job]:
        """Start consuming the jobs of one model and class.

        Return their iterator, at most `prefetch` unacknowledged at a time.

        A consumer of lower `priority` gets only jobs for which those of higher priority have no capacity.
        """
        queue = topology.job_queue(model, service_class)
        consumer = await self._transport.consume(queue, prefetch=prefetch, priority=priority)
        return TypedConsumer(consumer, messages.JOBS, partial(self._dead_letter, topology.dead_job_routing_key(model)))

    async def dead_jobs(self, *, prefetch: int) -> Consumer:
        """Start consuming dead-lettered jobs, undecodable ones included; return an iterator over the raw deliveries."""
        return await self._transport.consume(topology.DEAD_QUEUE, prefetch=prefetch)

    async def park(self, delivery: Delivery, reason: str) -> None:
        """Move one message to the parked queue with `reason`, for an operator to inspect, then acknowledge the message.

        Raises:
            PublishError: the message was not moved, and is not acknowledged.
        """
        await self._move(delivery, topology.SETTLE_ROUTING_KEY, {REASON_HEADER: reason})

    async def move_to_diagnosed(self, delivery: Delivery, diagnosis: Diagnosis) -> None:
        """Move one failed job with its diagnosis to the diagnosed queue, for an operator, then acknowledge the job.

        Raises:
            PublishError: the job was not moved, and is not acknowledged.
        """
        await self._move(delivery, topology.DIAGNOSED_ROUTING_KEY, diagnosis.headers())

    async def browse(self, queue: str) -> Browser:
        """Open a browser on a durable queue, to get messages one by one.

        Unsettled ones return to the queue when it closes.
        """
        return await self._transport.browse(queue)

    async def _dead_letter(self, routing_key: str, delivery: Delivery, reason: str) -> None:
        """Dead-letter a message with its reason; if that fails, reject it, so that the broker does it without one."""
        _log.error("undecodable message dead-lettered", queue=delivery.routing_key, reason=reason)
        try:
            await self._move(delivery, routing_key, {REASON_HEADER: reason})
        except PublishError as error:
            _log.warning("message dead-lettered without its reason", reason=str(error))
            delivery.reject(requeue=False)

    async def _move(self, delivery: Delivery, routing_key: str, added_headers: Mapping[str, HeaderValue]) -> None:
        await self._transport.publish(
            Outgoing(
                exchange=topology.DEAD_LETTERS_EXCHANGE,
                routing_key=routing_key,
                body=delivery.body,
                headers={**delivery.headers, **added_headers},
                message_id=delivery.message_id,
                persistent=True,
            )
        )
        delivery.ack()

    # Replies

    async def replies(self, gateway: str) -> TypedSubscription[Window]:
        """Create the reply inbox of the process `gateway`, and return an iterator over windows.

        Call it before any publish.
        """
        subscription = await self._transport.subscribe(
            topology.REPLY_EXCHANGE, [gateway], arguments=topology.REPLY_QUEUE_ARGUMENTS
        )
        return TypedSubscription(subscription, messages.WINDOWS, "replies")

    def send_window(self, gateway: str, window: Window) -> None:
        """Send a window of replies to the inbox of `gateway`, unconfirmed.

        Callbacks report it if there is no such inbox. The callbacks are those of `on_gateway_unreachable`.

        Raises:
            BrokerUnavailable: the connection is down.
        """
        self._transport.publish_unconfirmed(
            Outgoing(topology.REPLY_EXCHANGE, gateway, messages.encode(window)), mandatory=True
        )

    def on_gateway_unreachable(self, callback: Callable[[str], None]) -> None:
        """Register `callback(gateway)`, called when the broker returns a window: that gateway has no reply inbox."""
        self._on_return(topology.REPLY_EXCHANGE, callback)

    # Usage

    async def publish_settlement(self, message: Settlement) -> None:
        """Publish one usage record or receipt to billing's queue, and wait for the publisher confirm.

        Raises:
            Unroutable, QueueFull, BrokerUnavailable: the message was not queued.
            PublishUnknown: no confirm arrived; the message may be queued.
        """
        await self._transport.publish(
            Outgoing(
                exchange=topology.RECEIPTS_EXCHANGE if isinstance(message, Receipt) else topology.SETTLE_EXCHANGE,
                routing_key=topology.SETTLE_ROUTING_KEY,
                body=messages.encode(message),
                message_id=message.job,
                persistent=True,
            )
        )

    async def settlements(self, *, prefetch: int) -> TypedConsumer[Settlement]:
        """Start consuming usage records and receipts; return their iterator. Undecodable and forged ones are parked."""
        consumer = await self._transport.consume(topology.SETTLE_QUEUE, prefetch=prefetch)
        park = partial(self._dead_letter, topology.SETTLE_ROUTING_KEY)
        return TypedConsumer(consumer, messages.SETTLEMENTS, park, _check_publisher)

    # Control and status

    def on_control_unroutable(self, callback: Callable[[str], None]) -> None:
        """Register `callback(target)`, called when the broker returns a `mandatory` control message to `target`."""
        self._on_return(topology.CONTROL_EXCHANGE, callback)

    def _on_return(self, exchange: str, callback: Callable[[str], None]) -> None:
        """Call `callback(routing_key)` for each message to `exchange` that the broker returns."""

        def returned(message: Outgoing) -> None:
            if message.exchange == exchange:
                callback(message.routing_key)

        self._transport.on_return(returned)

    def send_control(self, target: str, message: Control, *, mandatory: bool = False) -> None:
        """Sign and publish a control message, unconfirmed, to `target`, a routing key of `router/control_targets.py`.

        If `mandatory` and no queue is bound for `target`, the `on_control_unroutable` callbacks are called.

        Raises:
            BrokerUnavailable: the connection is down.
        """
        body = messages.encode(message)
        headers = {} if self._signer is None else self._signer.sign(target, body)
        self._transport.publish_unconfirmed(
            Outgoing(topology.CONTROL_EXCHANGE, target, body, headers), mandatory=mandatory
        )

    async def controls(self, targets: list[str]) -> TypedSubscription[Control]:
        """Subscribe to the control messages for any of `targets` (routing keys).

        Drops those with an invalid signature.
        """
        subscription = await self._transport.subscribe(
            topology.CONTROL_EXCHANGE, targets, arguments=topology.CONTROL_QUEUE_ARGUMENTS
        )
        return TypedSubscription(subscription, messages.CONTROLS, "control", self._accepts_control)

    def on_control_rejected(self, callback: Callable[[str], None]) -> None:
        """Set the callback that gets `unsigned`, `forged` or `old` for each control message rejected for that."""
        self._control_rejected = callback

    def _accepts_control(self, received: Received) -> bool:
        try:
            if self._signer is not None:
                self._signer.verify(received)
        except UntrustedControl as error:
            _log.error("control message rejected", reason=error.reason, target=received.routing_key)
            self._control_rejected(error.reason)
            return False
        return True

    def send_status(self, status: WorkerStatus) -> None:
        """Publish a worker's heartbeat to all gateways, without waiting for a publisher confirm.

        Raises:
            BrokerUnavailable: the connection is down.
        """
        self._transport.publish_unconfirmed(Outgoing(topology.STATUS_EXCHANGE, "", messages.encode(status)))

    async def statuses(self) -> TypedSubscription[WorkerStatus]:
        """Subscribe to the heartbeats of all workers; return an iterator over them."""
        subscription = await self._transport.subscribe(
            topology.STATUS_EXCHANGE, [""], arguments=topology.STATUS_QUEUE_ARGUMENTS
        )
        return TypedSubscription(subscription, messages.STATUSES, "status")


def _check_publisher(message: Settlement, delivery: Delivery) -> None:
    """Check that a receipt came through the exchange to which only gateways may publish.

    Raises:
        UndecodableMessage: it came through another, so a worker may have forged it.
    """
    if isinstance(message, Receipt) and delivery.exchange != topology.RECEIPTS_EXCHANGE:
        raise UndecodableMessage(FORGED_RECEIPT)
