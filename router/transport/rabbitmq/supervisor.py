"""Connections and channels that mend themselves.

A `Link` keeps one connection up, a `Keeper` keeps one channel up on a link and has its user set it up anew each
time. Neither knows what the channel is for.
"""

from __future__ import annotations

import asyncio
import random
import time
from typing import Protocol

import pika
import structlog
from pika import exceptions

from router.errors import BrokerRefused
from router.transport.rabbitmq.channel import Channel, Connection
from router.transport.rabbitmq.conversion import describe

_FIRST_DELAY = 0.2
_LONGEST_DELAY = 5.0

_log = structlog.get_logger(__name__)


class Backoff:
    """Waits that grow from 0.2 to 5 seconds, jittered so that a fleet does not come back in step."""

    def __init__(self) -> None:
        self._delay = _FIRST_DELAY

    async def wait(self) -> None:
        """Wait half to all of the present delay, and double it."""
        await asyncio.sleep(self._delay * random.uniform(0.5, 1.0))  # noqa: S311 - not a secret
        self._delay = min(self._delay * 2, _LONGEST_DELAY)

    def reset(self) -> None:
        """It worked: start small again."""
        self._delay = _FIRST_DELAY


class Link:
    """One connection to the broker, opened again for ever."""

    def __init__(self, parameters: pika.URLParameters, name: str) -> None:
        self._parameters = parameters
        self._name = name
        self._up = asyncio.Event()
        self._connection: Connection | None = None
        self.blocked = False
        """The broker has an alarm and takes no publishes."""
        self.failure = "no attempt has ended yet"
        """Why the last attempt failed, in words."""
        self.lost_at = float("-inf")
        """When the connection was last lost, by the monotonic clock."""

    @property
    def unsent_bytes(self) -> int:
        """Bytes that the operating system has not taken yet."""
        connection = self._connection
        return 0 if connection is None else connection.unsent_bytes

    async def connection(self) -> Connection:
        """The open connection; waits for it."""
        while self._connection is None:
            await self._up.wait()
        return self._connection

    async def run(self) -> None:
        """Keep the connection up until cancelled."""
        backoff = Backoff()
        while True:
            try:
                connection = await Connection.open(self._parameters)
            except (exceptions.AMQPError, OSError) as error:
                self.failure = describe(error)
                _log.debug("broker not reached", connection=self._name, reason=self.failure)
                await backoff.wait()
                continue
            backoff.reset()
            self._opened(connection)
            reason = await asyncio.shield(connection.closed)  # cancelling us must not cancel it
            self._lost(reason)
            await backoff.wait()

    async def close(self) -> None:
        """Close the connection in order. Cancel `run` first."""
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
        _log.warning("broker blocks publishing" if blocked else "broker takes publishes again", connection=self._name)
        self.blocked = blocked


class ChannelUser(Protocol):
    """What a channel is for."""

    finished: bool
    """No channel is needed any more."""

    async def open(self, channel: Channel) -> None:
        """Set a fresh channel up. May raise pika's errors and `TimeoutError`."""


class Keeper:
    """One channel with its user, opened and set up again for ever.

    `ready` is done after the first set-up; it has `BrokerRefused` if the broker refused that, and then nothing is kept.
    """

    def __init__(self, link: Link, user: ChannelUser) -> None:
        self._link = link
        self._user = user
        self.ready: asyncio.Future[None] = asyncio.get_running_loop().create_future()

    async def run(self) -> None:
        """Keep the channel up until the user has finished, or until cancelled."""
        backoff = Backoff()
        while not self._user.finished:
            connection = await self._link.connection()
            channel: Channel | None = None
            try:
                channel = await connection.channel()
                await self._user.open(channel)
            except (exceptions.AMQPError, TimeoutError) as error:
                if channel is not None:
                    channel.close("set-up failed")
                if self._refused(error):
                    return
                await backoff.wait()
                continue
            backoff.reset()
            if not self.ready.done():
                self.ready.set_result(None)
            if self._user.finished:
                channel.close()
            reason = await asyncio.shield(channel.closed)
            _log.debug("channel closed", reason=describe(reason))
            await backoff.wait()

    def _refused(self, error: BaseException) -> bool:
        """Whether it was the first time, and the broker closed the channel to say no: trying again won't help."""
        if self.ready.done():
            _log.warning("channel not set up, trying again", reason=describe(error))
            return False
        if isinstance(error, exceptions.ChannelClosedByBroker):
            self.ready.set_exception(BrokerRefused(describe(error)))
            return True
        return False
