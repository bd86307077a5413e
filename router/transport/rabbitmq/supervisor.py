"""Keeps RabbitMQ connections and channels open: opens them again after a loss, with exponential backoff.

A `ConnectionSupervisor` keeps one connection open; a `ChannelSupervisor` keeps one channel open on it and lets its user
set up each new one.
"""

from __future__ import annotations

import asyncio
import time
from typing import Protocol

import pika
import structlog
from pika import exceptions

from router.errors import BrokerRefused
from router.transport.rabbitmq.channel import RPC_TIMEOUT, Channel, Connection
from router.transport.rabbitmq.conversion import describe
from runtime.retry import Backoff, exponential_backoff

FIRST_RECONNECT_DELAY = 0.2
"""Seconds; doubled after each failure."""

_log = structlog.get_logger(__name__)


class ConnectionSupervisor:
    """Supervisor that opens one connection to the broker, again whenever it is lost."""

    def __init__(self, parameters: pika.URLParameters, name: str, max_delay: float) -> None:
        """`max_delay` is the longest delay in seconds before a lost connection or channel is opened again."""
        self.retry_wait = exponential_backoff(FIRST_RECONNECT_DELAY, max_delay)
        self._parameters = parameters
        self._name = name
        self._up = asyncio.Event()
        self._connection: Connection | None = None
        self.blocked = False
        """Whether a broker alarm blocks publishes."""
        self.failure = "no attempt has ended yet"
        """Why the last connection attempt failed, as text."""
        self.lost_at = float("-inf")
        """Monotonic time at which the connection was last lost; `-inf` if never."""

    @property
    def unsent_bytes(self) -> int:
        """Number of bytes not yet written to the connection's socket; 0 without a connection."""
        connection = self._connection
        return 0 if connection is None else connection.unsent_bytes

    async def connection(self) -> Connection:
        """Wait until the supervised connection is open, and return it."""
        while self._connection is None:
            await self._up.wait()
        return self._connection

    async def channel(self) -> Channel:
        """Open and return a channel that is not reopened after a loss. Raises `TimeoutError` without a connection."""
        async with asyncio.timeout(RPC_TIMEOUT):
            connection = await self.connection()
        return await connection.channel()

    async def run(self) -> None:
        """Open the connection to the broker, and open it again after each failure or loss, until cancelled."""
        backoff = Backoff(self.retry_wait)
        while True:
            try:
                connection = await Connection.open(self._parameters)
            except (exceptions.AMQPError, OSError) as error:
                self.failure = describe(error)
                _log.debug("broker not reached", connection=self._name, reason=self.failure)
                await backoff.sleep()
                continue
            backoff.reset()
            self._opened(connection)
            reason = await asyncio.shield(connection.closed)  # cancelling us must not cancel it
            self._lost(reason)
            await backoff.sleep()

    async def close(self) -> None:
        """Close the connection to the broker gracefully. Cancel `run` first."""
        if self._connection is not None:
            await self._connection.close()
            self._connection = None

    def _opened(self, connection: Connection) -> None:
        _log.info("connected to the broker", connection=self._name)
        connection.on_blocked(self._set_blocked)
        self._connection = connection
        self._up.set()

    def _lost(self, reason: BaseException) -> None:
        self.lost_at = time.monotonic()
        self.failure = describe(reason)
        _log.warning("connection to the broker lost", connection=self._name, reason=self.failure)
        self._up.clear()
        self._connection = None
        self.blocked = False

    def _set_blocked(self, blocked: bool) -> None:
        _log.warning("broker blocks publishing" if blocked else "broker accepts publishes again", connection=self._name)
        self.blocked = blocked


class ChannelUser(Protocol):
    """Interface of what uses a supervised channel: a publisher, consumer or subscription."""

    finished: bool
    """Whether the channel is no longer needed."""

    async def open(self, channel: Channel) -> None:
        """Set up a new channel, as by declaring and consuming a queue. May raise pika's errors and `TimeoutError`."""


class ChannelSupervisor:
    """One channel with its user, reopened and set up again whenever it is lost.

    The future `ready` is set after the first set-up; to `BrokerRefused` if the broker refused it, which ends `run`.
    """

    def __init__(self, connection: ConnectionSupervisor, user: ChannelUser) -> None:
        self._connection = connection
        self._user = user
        self.ready: asyncio.Future[None] = asyncio.get_running_loop().create_future()

    async def run(self) -> None:
        """Open a channel and have its user set it up, again after each loss, until the user ends or is refused."""
        backoff = Backoff(self._connection.retry_wait)
        while not self._user.finished:
            connection = await self._connection.connection()
            channel: Channel | None = None
            try:
                channel = await connection.channel()
                await self._user.open(channel)
            except (exceptions.AMQPError, TimeoutError) as error:
                if channel is not None:
                    channel.close("set-up failed")
                if self._refused(error):
                    return
                await backoff.sleep()
                continue
            backoff.reset()
            if not self.ready.done():
                self.ready.set_result(None)
            if self._user.finished:
                channel.close()
            reason = await asyncio.shield(channel.closed)
            _log.debug("channel closed", reason=describe(reason))
            await backoff.sleep()

    def _refused(self, error: BaseException) -> bool:
        """Whether the broker refused the first set-up by closing the channel: a retry would not help."""
        if self.ready.done():
            _log.warning("channel set-up failed, retrying", reason=describe(error))
            return False
        if isinstance(error, exceptions.ChannelClosedByBroker):
            self.ready.set_exception(BrokerRefused(describe(error)))
            return True
        return False
