"""Browser of a RabbitMQ queue: gets one message at a time (basic.get) on a channel, which is not reopened when lost."""

from __future__ import annotations

import asyncio

from pika import exceptions

from router.errors import BrokerRefused, BrokerUnavailable
from router.transport.base import Browser, Delivery
from router.transport.rabbitmq.channel import RPC_TIMEOUT, Channel
from router.transport.rabbitmq.consumers import ChannelSession, RabbitMQDelivery
from router.transport.rabbitmq.conversion import describe
from router.transport.rabbitmq.supervisor import ConnectionSupervisor


class RabbitMQBrowser(Browser):
    """Browser of a RabbitMQ queue. Create it by `open`, on the application's event loop."""

    def __init__(self, queue: str, channel: Channel) -> None:
        self._queue = queue
        self._channel = channel
        self._session = ChannelSession(channel)
        channel.when_lost(self._lost)

    @classmethod
    async def open(cls, queue: str, supervisor: ConnectionSupervisor) -> RabbitMQBrowser:
        """Create a browser of `queue`, on a new channel of the connection that `supervisor` keeps open.

        Raises:
            BrokerUnavailable: no connection, or the broker did not answer.
        """
        try:
            channel = await supervisor.channel()
        except (exceptions.AMQPError, TimeoutError) as error:
            raise BrokerUnavailable(f"browsing {queue}: {describe(error)}") from None
        channel.watch_empty()
        return cls(queue, channel)

    async def get(self) -> Delivery | None:
        """Take the queue's next message (basic.get), which must then be settled; `None` if no message is ready."""
        try:
            message = await self._channel.get(self._queue)
        except exceptions.ChannelClosedByBroker as error:
            raise BrokerRefused(describe(error)) from None
        except (exceptions.AMQPError, TimeoutError) as error:
            raise BrokerUnavailable(f"browsing {self._queue}: {describe(error)}") from None
        if message is None:
            return None
        self._session.unsettled += 1
        return RabbitMQDelivery(self._session, *message)

    async def close(self) -> None:
        """Close the browser's channel: unsettled messages go back to the queue, after the settlements sent before."""
        self._channel.close()
        await asyncio.wait({self._channel.closed}, timeout=RPC_TIMEOUT)

    def _lost(self, _reason: BaseException) -> None:
        self._session.lost = True
