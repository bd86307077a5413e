"""Publishes messages to RabbitMQ: `ConfirmedPublisher` with publisher confirms, `UnconfirmedPublisher` without.

Each has a separate channel: a publish to a missing exchange closes its channel some time later, and must not affect the
other publisher's messages.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Any

import structlog
from pika import exceptions, spec

from router.errors import BrokerUnavailable, PublishError, PublishUnknown, QueueFull, Unroutable
from router.transport.base import Outgoing
from router.transport.rabbitmq.channel import Channel
from router.transport.rabbitmq.conversion import describe, from_return

_log = structlog.get_logger(__name__)

OnOutcome = Callable[[PublishError | None], None]
"""Called exactly once for each message, with `None` if the broker has confirmed it."""


@dataclass
class _Pending:
    message: Outgoing
    on_outcome: OnOutcome
    returned: bool = False


class _Publisher:
    """The channel of a publisher, which needs it until the transport is closed."""

    finished = False

    def __init__(self) -> None:
        self._channel: Channel | None = None

    @property
    def ready(self) -> bool:
        """Whether the publisher has an open channel to publish on."""
        return self._channel is not None


class ConfirmedPublisher(_Publisher):
    """Publishes with publisher confirms and reports the outcome of each message.

    Confirms have sequence numbers (from 1 on each channel), often many at once. A basic.return arrives before the ack
    of the same message and has no number, so each message carries its number as correlation id.
    """

    def __init__(self, prepare: Callable[[Channel], Awaitable[None]], is_blocked: Callable[[], bool]) -> None:
        super().__init__()
        self._prepare = prepare
        self._is_blocked = is_blocked
        self._pending: dict[int, _Pending] = {}
        self._last = 0

    async def open(self, channel: Channel) -> None:
        """Set up a new channel (declarations, confirms) and publish on it from now on, numbered from 1 again."""
        await self._prepare(channel)
        await channel.confirm(self._confirmed)
        channel.on_return(self._returned)
        self._last = 0
        self._channel = channel
        channel.when_lost(self._lost)

    def send(self, message: Outgoing, on_outcome: OnOutcome) -> None:
        """Send one message.

        `on_outcome` is called when the broker confirms, returns or rejects it or the channel is lost.
        """
        if self._channel is None or self._is_blocked():
            on_outcome(BrokerUnavailable("no connection to the broker" if self._channel is None else "broker blocked"))
            return
        number = self._last + 1
        self._pending[number] = _Pending(message, on_outcome)
        try:
            self._channel.publish(message, mandatory=True, correlation_id=str(number))
        except exceptions.AMQPError as error:  # raised before anything is sent: the number is not used
            if self._pending.pop(number, None) is not None:
                on_outcome(BrokerUnavailable(f"not sent: {describe(error)}"))
            return
        self._last = number

    def _confirmed(self, frame: Any) -> None:
        accepted = isinstance(frame.method, spec.Basic.Ack)
        for number in self._numbers(frame.method.delivery_tag, frame.method.multiple):
            pending = self._pending.pop(number)
            pending.on_outcome(_outcome(pending, accepted))

    def _numbers(self, tag: int, multiple: bool) -> list[int]:
        if not multiple:
            return [tag] if tag in self._pending else []
        numbers = []
        for number in self._pending:  # in the order of sending
            if number > tag > 0:
                break
            numbers.append(number)
        return numbers

    def _returned(self, _method: Any, properties: Any, _body: bytes) -> None:
        number = properties.correlation_id
        if number is not None and number.isdigit() and int(number) in self._pending:
            self._pending[int(number)].returned = True

    def _lost(self, reason: BaseException) -> None:
        self._channel = None
        pending, self._pending = self._pending, {}
        words = describe(reason)
        for entry in pending.values():
            entry.on_outcome(PublishUnknown(f"the channel closed before the broker's answer: {words}"))


class UnconfirmedPublisher(_Publisher):
    """Publishes without confirms. Messages sent while the channel is closed are lost silently."""

    def __init__(self, on_return: Callable[[Outgoing], None]) -> None:
        super().__init__()
        self._on_return = on_return

    async def open(self, channel: Channel) -> None:
        """Publish unconfirmed messages on this new channel from now on, in place of the one before."""
        channel.on_return(lambda method, properties, body: self._on_return(from_return(method, properties, body)))
        self._channel = channel
        channel.when_lost(self._lost)

    def send(self, message: Outgoing, mandatory: bool) -> None:
        """Send one message without a confirm; it is dropped silently if no channel is open."""
        if self._channel is None:
            return
        try:
            self._channel.publish(message, mandatory=mandatory)
        except exceptions.AMQPError as error:
            _log.warning("message not sent", exchange=message.exchange, reason=describe(error))

    def _lost(self, _reason: BaseException) -> None:
        self._channel = None


def _outcome(pending: _Pending, accepted: bool) -> PublishError | None:
    message = pending.message
    if pending.returned:
        return Unroutable(f"no queue is bound to {message.exchange} for {message.routing_key}")
    if not accepted:
        return QueueFull(f"the queue for {message.routing_key} is at its limit")
    return None
