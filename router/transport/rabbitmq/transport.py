"""RabbitMQ implementation of `Transport`, over two connections.

In a memory or disk alarm the broker stops reading from connections that publish, including their acks. So "<name>
publish" has a channel for confirmed publishes and one for posts, and "<name> consume" has a channel for each consumer
and subscription.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Coroutine, Mapping, Sequence
from functools import partial
from typing import Any, NoReturn, TypeVar

import pika
import structlog
from pika import exceptions

from router.errors import BrokerRefused, BrokerUnavailable, PublishError, PublishUnknown
from router.topology import Topology
from router.transport.base import (
    Browser,
    ConnectionState,
    Consumer,
    Outgoing,
    Received,
    ReturnCallback,
    Subscription,
    Transport,
)
from router.transport.inbox import Inbox
from router.transport.rabbitmq import header_tables
from router.transport.rabbitmq.browsing import RabbitMQBrowser
from router.transport.rabbitmq.channel import RPC_SECONDS, Channel
from router.transport.rabbitmq.conversion import describe
from router.transport.rabbitmq.publishing import ConfirmedPublisher, Poster
from router.transport.rabbitmq.receiving import (
    ConsumerStation,
    RabbitMQConsumer,
    RabbitMQDelivery,
    RabbitMQSubscription,
    SubscriptionStation,
)
from router.transport.rabbitmq.supervisor import ChannelUser, Keeper, Link

T = TypeVar("T")

_HEARTBEAT_SECONDS = 10
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

    def __init__(self, url: str, name: str, *, start_timeout: float = 10.0, publish_timeout: float = 2.0) -> None:
        self._name = name
        self._url = url
        self._start_timeout = start_timeout
        self._publish_timeout = publish_timeout
        self._peer = _peer(_parameters(url, name))
        self._return_callbacks: list[ReturnCallback] = []
        self._inboxes: list[Inbox[Any]] = []
        self._answers: set[asyncio.Future[None]] = set()
        self._unconfirmed = asyncio.Semaphore(_UNCONFIRMED_LIMIT)
        self._publishing = 0
        self._remembered: list[Topology] = []
        self._tasks: set[asyncio.Task[None]] = set()
        self._running = False

    # Start and close

    async def start(self) -> None:
        """Connect, retrying until `start_timeout`."""
        header_tables.tolerate()
        logging.getLogger("pika").setLevel(logging.CRITICAL)  # this package logs the same events, once
        self._publish_link = Link(_parameters(self._url, f"{self._name} publish"), f"{self._name} publish")
        self._consume_link = Link(_parameters(self._url, f"{self._name} consume"), f"{self._name} consume")
        self._publisher = ConfirmedPublisher(self._declare_remembered, lambda: self._publish_link.blocked)
        self._poster = Poster(self._came_back)
        try:
            async with asyncio.timeout(self._start_timeout):
                await self._bring_up()
            self._running = True
        except TimeoutError:
            raise BrokerUnavailable(f"no broker at {self._peer}: {self._publish_link.failure}") from None
        finally:
            if not self._running:
                await self._take_down()

    async def close(self) -> None:
        """Wait for outstanding confirms, then disconnect. Unsettled deliveries return to their queues."""
        if not self._running:
            return
        self._running = False
        if self._answers:
            await asyncio.wait(self._answers, timeout=self._publish_timeout)
        try:
            async with asyncio.timeout(2 * RPC_SECONDS):
                await self._take_down()
        except TimeoutError:
            _log.warning("broker did not confirm the close", broker=self._peer)
        for answer in self._answers:
            _settle(answer, PublishUnknown("the transport was closed before the broker's answer"))
        for inbox in self._inboxes:
            inbox.end()

    @property
    def state(self) -> ConnectionState:
        """State of the publishing connection."""
        if not self._running or not self._publisher.ready or not self._poster.ready:
            return ConnectionState.DOWN
        return ConnectionState.BLOCKED if self._publish_link.blocked else ConnectionState.UP

    @property
    def lost_at(self) -> float:
        """Monotonic time at which either connection was last lost."""
        return max(self._publish_link.lost_at, self._consume_link.lost_at)

    @property
    def unsent_bytes(self) -> int:
        """Bytes not yet written to the publishing connection's socket."""
        return self._publish_link.unsent_bytes if self._running else 0

    @property
    def unconfirmed(self) -> int:
        """Number of publishes in progress."""
        return self._publishing

    # Sending

    async def declare(self, topology: Topology) -> None:
        """Declare durable objects now, and again after each reconnect.

        Raises:
            BrokerRefused: other arguments than before, or no permission.
            BrokerUnavailable: no connection, or no answer.
        """
        await self._call(self._declare(topology), f"declaring at {self._peer}")

    async def publish(self, message: Outgoing) -> None:
        """Send a message and wait for the publisher confirm."""
        answer: asyncio.Future[None] | None = None
        self._publishing += 1
        try:
            async with asyncio.timeout(self._publish_timeout), self._unconfirmed:
                if self.state is not ConnectionState.UP:
                    raise BrokerUnavailable(f"the broker at {self._peer} is {self.state.value}")
                answer = asyncio.get_running_loop().create_future()
                self._answers.add(answer)
                self._publisher.send(message, partial(_settle, answer))
                await answer
        except TimeoutError:
            if answer is None:
                raise BrokerUnavailable(f"{_UNCONFIRMED_LIMIT} publishes wait for the broker already") from None
            raise PublishUnknown(f"no answer from the broker within {self._publish_timeout:g} s") from None
        finally:
            self._publishing -= 1
            if answer is not None:
                self._answers.discard(answer)

    def post(self, message: Outgoing, *, mandatory: bool = False) -> None:
        """Send a message unconfirmed."""
        if self.state is ConnectionState.DOWN:
            raise BrokerUnavailable(f"the broker at {self._peer} is down")
        self._poster.send(message, mandatory)

    def on_return(self, callback: ReturnCallback) -> None:
        """Call `callback` for each posted message that the broker returns."""
        self._return_callbacks.append(callback)

    # Receiving

    async def consume(self, queue: str, *, prefetch: int, priority: int = 0) -> Consumer:
        """Consume a durable queue.

        Raises:
            BrokerRefused: no such queue, or no permission.
            BrokerUnavailable: no connection, or no answer.
        """
        inbox: Inbox[RabbitMQDelivery] = Inbox()
        station = ConsumerStation(queue, prefetch, priority, self._name, inbox)
        await self._call(self._keep(self._consume_link, station), f"consuming {queue}")
        self._inboxes.append(inbox)
        return RabbitMQConsumer(inbox, partial(self._cancel, station.cancel, inbox))

    async def browse(self, queue: str) -> Browser:
        """Open a browser on a durable queue.

        Raises:
            BrokerUnavailable: no connection, or no answer.
        """
        if not self._running:
            raise BrokerUnavailable(f"browsing {queue}: not connected")
        return await RabbitMQBrowser.open(queue, self._consume_link)

    async def subscribe(
        self,
        exchange: str,
        routing_keys: Sequence[str],
        *,
        arguments: Mapping[str, str | int],
    ) -> Subscription:
        """Open a private queue.

        Raises:
            BrokerRefused: no such exchange, or no permission.
            BrokerUnavailable: no connection, or no answer.
        """
        inbox: Inbox[Received] = Inbox()
        station = SubscriptionStation(exchange, routing_keys, arguments, self._name, inbox)
        await self._call(self._keep(self._consume_link, station), f"subscribing to {exchange}")
        self._inboxes.append(inbox)
        return RabbitMQSubscription(inbox, partial(self._cancel, station.cancel, inbox))

    # Internal

    async def _call(self, coroutine: Coroutine[Any, Any, T], what: str) -> T:
        if not self._running:
            coroutine.close()
            raise BrokerUnavailable(f"{what}: not connected")
        try:
            return await coroutine
        except TimeoutError:
            raise BrokerUnavailable(f"{what}: no answer from the broker") from None

    async def _cancel(self, cancel: Callable[[], Coroutine[Any, Any, None]], inbox: Inbox[Any]) -> None:
        if self._running and inbox in self._inboxes:
            self._inboxes.remove(inbox)
            await cancel()

    def _came_back(self, message: Outgoing) -> None:
        """Defer the callbacks: they may send, and this runs inside a callback of pika."""
        asyncio.get_running_loop().call_soon(self._returned, message)

    def _returned(self, message: Outgoing) -> None:
        for callback in self._return_callbacks:
            callback(message)

    async def _bring_up(self) -> None:
        for link in (self._publish_link, self._consume_link):
            self._spawn(link.run())
        await self._keep(self._publish_link, self._publisher)
        await self._keep(self._publish_link, self._poster)
        await self._consume_link.connection()

    async def _take_down(self) -> None:
        tasks = list(self._tasks)
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        await self._consume_link.close()
        await self._publish_link.close()

    async def _keep(self, link: Link, user: ChannelUser) -> None:
        """Keep a channel open for `user`; returns after its first set-up."""
        keeper = Keeper(link, user)
        task = self._spawn(keeper.run())
        try:
            async with asyncio.timeout(RPC_SECONDS if self._running else None):  # `start` has its own timeout
                await keeper.ready
        except BaseException:
            task.cancel()
            raise

    async def _declare(self, topology: Topology) -> None:
        try:
            async with asyncio.timeout(RPC_SECONDS):
                connection = await self._publish_link.connection()
            channel = await connection.channel()
            try:
                await channel.declare(topology)
            finally:
                channel.close()
        except exceptions.ChannelClosedByBroker as error:
            raise BrokerRefused(describe(error)) from None
        except exceptions.AMQPError as error:
            raise BrokerUnavailable(describe(error)) from None
        if topology not in self._remembered:
            self._remembered.append(topology)

    async def _declare_remembered(self, channel: Channel) -> None:
        """Declare the topology again: a broker may restart with an empty disk."""
        for topology in self._remembered:
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


def _settle(answer: asyncio.Future[None], error: PublishError | None) -> None:
    if answer.done():  # the caller's timeout has passed
        return
    if error is None:
        answer.set_result(None)
    else:
        answer.set_exception(error)


def _parameters(url: str, connection_name: str) -> pika.URLParameters:
    """Return the connection parameters. An invalid URL is not repeated in the error: it contains a password."""
    try:
        parameters = pika.URLParameters(url)
    except (ValueError, TypeError, AttributeError, KeyError):
        _refuse_url()
    parameters.heartbeat = _HEARTBEAT_SECONDS
    parameters.connection_attempts = 1  # `Link` retries
    parameters.socket_timeout = RPC_SECONDS
    parameters.stack_timeout = RPC_SECONDS
    parameters.blocked_connection_timeout = None  # a blocked publisher waits and reports BLOCKED
    parameters.client_properties = {"connection_name": connection_name, "product": "Headrace"}
    return parameters


def _refuse_url() -> NoReturn:
    raise BrokerUnavailable("HEADRACE_AMQP_URL is not of the form amqp://user:password@host:port/vhost") from None


def _peer(parameters: pika.URLParameters) -> str:
    return f"{parameters.host}:{parameters.port}"
