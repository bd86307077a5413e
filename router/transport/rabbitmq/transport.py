"""RabbitMQ implementation of the transport interface: two self-reconnecting connections, to publish and to consume.

In a memory or disk alarm the broker stops reading from connections that publish, including their acks. So "<name>
publish" has a channel for confirmed publishes and one for posts, and "<name> consume" has a channel for each consumer
and subscription.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Coroutine, Mapping, Sequence
from functools import partial
from typing import Any, TypeVar
from weakref import WeakSet

import pika
import structlog
from pika import exceptions

from router.errors import BrokerRefused, BrokerUnavailable, PublishError, PublishUnknown
from router.timings import DEFAULT_TIMINGS, Timings
from router.topology import Topology
from router.transport.base import Browser, ConnectionState, Consumer, Outgoing, ReturnCallback, Subscription, Transport
from router.transport.rabbitmq import header_decoding
from router.transport.rabbitmq.browser import RabbitMQBrowser
from router.transport.rabbitmq.channel import RPC_TIMEOUT, Channel
from router.transport.rabbitmq.consumers import ChannelReader, RabbitMQConsumer, RabbitMQSubscription
from router.transport.rabbitmq.conversion import describe
from router.transport.rabbitmq.publishers import ConfirmedPublisher, UnconfirmedPublisher
from router.transport.rabbitmq.supervisor import ChannelSupervisor, ChannelUser, ConnectionSupervisor

T = TypeVar("T")
R = TypeVar("R", bound=ChannelReader[Any])

_UNCONFIRMED_LIMIT = 500
"""Most publishes in flight without a confirm; further ones wait before they are sent."""

_log = structlog.get_logger(__name__)


class RabbitMQTransport(Transport):
    """A process's two connections to RabbitMQ, which reconnect by themselves after a successful start.

    Args:
        url: `amqp://user:password@host:port/vhost`.
        name: process name, e.g. `gateway-1`, of connections and consumers in the management console.
        start_timeout: timeout of `start`, in seconds.
        publish_timeout: timeout of `publish` including its confirm, in seconds.
    """

    def __init__(
        self,
        url: str,
        name: str,
        *,
        start_timeout: float = 10.0,
        publish_timeout: float = 2.0,
        timings: Timings = DEFAULT_TIMINGS,
    ) -> None:
        self._name = name
        self._timings = timings
        self._url = url
        self._start_timeout = start_timeout
        self._publish_timeout = publish_timeout
        self._peer = _peer(_parameters(url, name, timings.amqp_heartbeat_interval))
        self._return_callbacks: list[ReturnCallback] = []
        self._readers: WeakSet[ChannelReader[Any]] = WeakSet()
        self._confirms: set[asyncio.Future[None]] = set()
        self._unconfirmed = asyncio.Semaphore(_UNCONFIRMED_LIMIT)
        self._publishing = 0
        self._topologies: list[Topology] = []
        self._tasks: set[asyncio.Task[None]] = set()
        self._running = False

    # Start and close

    async def start(self) -> None:
        """Connect to RabbitMQ, retrying until `start_timeout`. Raises `BrokerUnavailable` after that."""
        header_decoding.patch_pika()
        logging.getLogger("pika").setLevel(logging.CRITICAL)  # this package logs the same events, once
        self._publish_connection = self._supervised_connection(f"{self._name} publish")
        self._consume_connection = self._supervised_connection(f"{self._name} consume")
        self._publisher = ConfirmedPublisher(self._declare_topologies, lambda: self._publish_connection.blocked)
        self._unconfirmed_publisher = UnconfirmedPublisher(self._handle_return)
        try:
            async with asyncio.timeout(self._start_timeout):
                await self._bring_up()
            self._running = True
        except TimeoutError:
            raise BrokerUnavailable(f"no broker at {self._peer}: {self._publish_connection.failure}") from None
        finally:
            if not self._running:
                await self._take_down()

    def _supervised_connection(self, name: str) -> ConnectionSupervisor:
        parameters = _parameters(self._url, name, self._timings.amqp_heartbeat_interval)
        return ConnectionSupervisor(parameters, name, self._timings.max_reconnect_delay)

    async def close(self) -> None:
        """Wait for outstanding publisher confirms, then disconnect. Unsettled deliveries return to their queues."""
        if not self._running:
            return
        self._running = False
        if self._confirms:
            await asyncio.wait(self._confirms, timeout=self._publish_timeout)
        try:
            async with asyncio.timeout(2 * RPC_TIMEOUT):
                await self._take_down()
        except TimeoutError:
            _log.warning("broker did not confirm the close", broker=self._peer)
        for confirm in self._confirms:
            _settle(confirm, PublishUnknown("the transport was closed before the broker's confirm"))
        for reader in self._readers:
            if not reader.finished:
                reader.end()

    @property
    def state(self) -> ConnectionState:
        """State of the publishing connection to RabbitMQ: up, blocked by an alarm, or down."""
        if not self._running or not self._publisher.ready or not self._unconfirmed_publisher.ready:
            return ConnectionState.DOWN
        return ConnectionState.BLOCKED if self._publish_connection.blocked else ConnectionState.UP

    @property
    def lost_at(self) -> float:
        """Monotonic time at which either connection to RabbitMQ was last lost; `-inf` if never."""
        return max(self._publish_connection.lost_at, self._consume_connection.lost_at)

    @property
    def unsent_bytes(self) -> int:
        """Number of bytes not yet written to the publishing connection's socket."""
        return self._publish_connection.unsent_bytes if self._running else 0

    @property
    def unconfirmed(self) -> int:
        """Number of calls of `publish` in progress: not confirmed by the broker yet, or not sent yet."""
        return self._publishing

    # Sending

    async def declare(self, topology: Topology) -> None:
        """Declare durable exchanges, queues and bindings at RabbitMQ now, and again after each reconnect.

        Raises:
            BrokerRefused: other arguments than before, or no permission.
            BrokerUnavailable: no connection, or no confirm.
        """
        await self._call(self._declare(topology), f"declaring at {self._peer}")

    async def publish(self, message: Outgoing) -> None:
        """Send one message and wait for RabbitMQ's confirm. Raises the errors of `Transport.publish`."""
        confirm: asyncio.Future[None] | None = None
        self._publishing += 1
        try:
            async with asyncio.timeout(self._publish_timeout), self._unconfirmed:
                if self.state is not ConnectionState.UP:
                    raise BrokerUnavailable(f"the broker at {self._peer} is {self.state.value}")
                confirm = asyncio.get_running_loop().create_future()
                self._confirms.add(confirm)
                self._publisher.send(message, partial(_settle, confirm))
                await confirm
        except TimeoutError:
            if confirm is None:
                raise BrokerUnavailable(f"{_UNCONFIRMED_LIMIT} publishes wait for the broker already") from None
            raise PublishUnknown(f"no answer from the broker within {self._publish_timeout:g} s") from None
        finally:
            self._publishing -= 1
            if confirm is not None:
                self._confirms.discard(confirm)

    def publish_unconfirmed(self, message: Outgoing, *, mandatory: bool = False) -> None:
        """Send one message without a confirm. If `mandatory` and unroutable, the `on_return` callbacks are called."""
        if self.state is ConnectionState.DOWN:
            raise BrokerUnavailable(f"the broker at {self._peer} is down")
        self._unconfirmed_publisher.send(message, mandatory)

    def on_return(self, callback: ReturnCallback) -> None:
        """Register `callback`, called with each message published unconfirmed that RabbitMQ returns as unroutable."""
        self._return_callbacks.append(callback)

    # Receiving

    async def consume(self, queue: str, *, prefetch: int, priority: int = 0) -> Consumer:
        """Start consuming a durable queue; return an iterator over deliveries, at most `prefetch` unsettled at a time.

        Raises:
            BrokerRefused: no such queue, or no permission.
            BrokerUnavailable: no connection, or no confirm.
        """
        consumer = RabbitMQConsumer(queue, prefetch, priority, self._name)
        return await self._open_reader(consumer, f"consuming {queue}")

    async def browse(self, queue: str) -> Browser:
        """Open a browser on a durable queue, which gets single messages beside the queue's consumers.

        Operators' commands browse dead letters by it. Unsettled messages return to the queue when the browser closes.

        Raises:
            BrokerUnavailable: no connection, or no confirm.
        """
        if not self._running:
            raise BrokerUnavailable(f"browsing {queue}: not connected")
        return await RabbitMQBrowser.open(queue, self._consume_connection)

    async def subscribe(
        self,
        exchange: str,
        routing_keys: Sequence[str],
        *,
        arguments: Mapping[str, str | int],
    ) -> Subscription:
        """Create a private queue bound to `exchange` by each routing key; return an iterator over its messages.

        Raises:
            BrokerRefused: no such exchange, or no permission.
            BrokerUnavailable: no connection, or no confirm.
        """
        subscription = RabbitMQSubscription(exchange, routing_keys, arguments, self._name)
        return await self._open_reader(subscription, f"subscribing to {exchange}")

    # Internal

    async def _call(self, coroutine: Coroutine[Any, Any, T], what: str) -> T:
        if not self._running:
            coroutine.close()
            raise BrokerUnavailable(f"{what}: not connected")
        try:
            return await coroutine
        except TimeoutError:
            raise BrokerUnavailable(f"{what}: no answer from the broker") from None

    async def _open_reader(self, reader: R, what: str) -> R:
        """Keep a channel open for a consumer or subscription until it is cancelled or the transport is closed."""
        await self._call(self._open_channel(self._consume_connection, reader), what)
        self._readers.add(reader)
        return reader

    def _handle_return(self, message: Outgoing) -> None:
        """Defer the callbacks: they may send, and this runs inside a callback of pika."""
        asyncio.get_running_loop().call_soon(self._call_return_callbacks, message)

    def _call_return_callbacks(self, message: Outgoing) -> None:
        for callback in self._return_callbacks:
            callback(message)

    async def _bring_up(self) -> None:
        for supervisor in (self._publish_connection, self._consume_connection):
            self._spawn(supervisor.run())
        await self._open_channel(self._publish_connection, self._publisher)
        await self._open_channel(self._publish_connection, self._unconfirmed_publisher)
        await self._consume_connection.connection()

    async def _take_down(self) -> None:
        tasks = list(self._tasks)
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        await self._consume_connection.close()
        await self._publish_connection.close()

    async def _open_channel(self, supervisor: ConnectionSupervisor, user: ChannelUser) -> None:
        """Keep a channel open for `user`; returns after its first set-up."""
        channel_supervisor = ChannelSupervisor(supervisor, user)
        task = self._spawn(channel_supervisor.run())
        try:
            async with asyncio.timeout(RPC_TIMEOUT if self._running else None):  # `start` has its own timeout
                await channel_supervisor.ready
        except BaseException:
            task.cancel()
            raise

    async def _declare(self, topology: Topology) -> None:
        try:
            channel = await self._publish_connection.channel()
            try:
                await channel.declare(topology)
            finally:
                channel.close()
        except exceptions.ChannelClosedByBroker as error:
            raise BrokerRefused(describe(error)) from None
        except exceptions.AMQPError as error:
            raise BrokerUnavailable(describe(error)) from None
        if topology not in self._topologies:
            self._topologies.append(topology)

    async def _declare_topologies(self, channel: Channel) -> None:
        """Declare the topology again: a broker may restart with an empty disk."""
        for topology in self._topologies:
            await channel.declare(topology)

    def _spawn(self, coroutine: Coroutine[Any, Any, None]) -> asyncio.Task[None]:
        task = asyncio.get_running_loop().create_task(coroutine)
        self._tasks.add(task)
        task.add_done_callback(self._ended)
        return task

    def _ended(self, task: asyncio.Task[None]) -> None:
        self._tasks.discard(task)
        if not task.cancelled() and (error := task.exception()) is not None:
            _log.error("transport task failed", exc_info=error)


def _settle(confirm: asyncio.Future[None], error: PublishError | None) -> None:
    if confirm.done():  # the caller's timeout has passed
        return
    if error is None:
        confirm.set_result(None)
    else:
        confirm.set_exception(error)


def _parameters(url: str, connection_name: str, heartbeat: int) -> pika.URLParameters:
    """Return the connection parameters. An invalid URL is not repeated in the error: it contains a password."""
    try:
        parameters = pika.URLParameters(url)
    except (ValueError, TypeError, AttributeError, KeyError):
        shape = "amqp://user:password@host:port/vhost"
        raise BrokerUnavailable(f"HEADRACE_AMQP_URL is not of the form {shape}") from None
    parameters.heartbeat = heartbeat
    parameters.connection_attempts = 1  # `ConnectionSupervisor` retries
    parameters.socket_timeout = RPC_TIMEOUT
    parameters.stack_timeout = RPC_TIMEOUT
    parameters.blocked_connection_timeout = None  # a blocked publisher waits and reports BLOCKED
    parameters.client_properties = {"connection_name": connection_name, "product": "Headrace"}
    return parameters


def _peer(parameters: pika.URLParameters) -> str:
    return f"{parameters.host}:{parameters.port}"
