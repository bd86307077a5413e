"""Parts of the RabbitMQ transport that can be tested without a broker."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from types import SimpleNamespace
from typing import Any

import pika
import pytest
from pika import exceptions, spec

from router.errors import BrokerUnavailable, PublishError, PublishUnknown, QueueFull, Unroutable
from router.transport.base import Outgoing
from router.transport.rabbitmq import conversion
from router.transport.rabbitmq.publishers import ConfirmedPublisher


class FakeChannel:
    """Records publishes; the test plays the broker."""

    def __init__(self) -> None:
        self.published: list[str | None] = []
        self.confirmed: Callable[[Any], None]
        self.returned: Callable[[Any, Any, bytes], None]
        self.lost: Callable[[BaseException], None]

    async def confirm(self, callback: Callable[[Any], None]) -> None:
        self.confirmed = callback

    def on_return(self, callback: Callable[[Any, Any, bytes], None]) -> None:
        self.returned = callback

    def when_lost(self, callback: Callable[[BaseException], None]) -> None:
        self.lost = callback

    def publish(self, message: Outgoing, *, mandatory: bool, correlation_id: str) -> None:
        assert mandatory
        if message.body == b"too long":
            raise exceptions.ShortStringTooLong("x")
        self.published.append(correlation_id)

    def answer(self, kind: type, tag: int, *, multiple: bool = False) -> None:
        self.confirmed(SimpleNamespace(method=kind(delivery_tag=tag, multiple=multiple)))


class Sender:
    def __init__(self) -> None:
        self.blocked = False
        self.channel = FakeChannel()
        self.publisher = ConfirmedPublisher(self._prepare, lambda: self.blocked)
        self.outcomes: dict[int, list[type | None]] = {}

    async def _prepare(self, _channel: Any) -> None:
        return

    async def open(self) -> None:
        self.channel = FakeChannel()
        await self.publisher.open(self.channel)  # type: ignore[arg-type]

    def send(self, key: int, body: bytes = b"") -> None:
        self.outcomes[key] = []
        self.publisher.send(Outgoing("e", "r", body), partial(self._note, key))

    def _note(self, key: int, error: PublishError | None) -> None:
        self.outcomes[key].append(None if error is None else type(error))


@pytest.fixture
async def sender() -> Sender:
    sender = Sender()
    await sender.open()
    return sender


async def test_a_multiple_ack_confirms_all_earlier_publishes(sender: Sender) -> None:
    for key in range(1, 6):
        sender.send(key)
    sender.channel.answer(spec.Basic.Ack, 2)
    sender.channel.answer(spec.Basic.Ack, 4, multiple=True)
    assert sender.outcomes == {1: [None], 2: [None], 3: [None], 4: [None], 5: []}
    sender.channel.answer(spec.Basic.Ack, 4)  # a repeated ack has no pending publish
    sender.channel.answer(spec.Basic.Nack, 0, multiple=True)
    assert sender.outcomes[5] == [QueueFull]


async def test_a_return_comes_before_its_ack(sender: Sender) -> None:
    for key in (1, 2, 3):
        sender.send(key)
    sender.channel.returned(None, pika.BasicProperties(correlation_id="2"), b"")
    assert sender.outcomes[2] == []
    sender.channel.answer(spec.Basic.Ack, 3, multiple=True)
    assert sender.outcomes == {1: [None], 2: [Unroutable], 3: [None]}


async def test_a_lost_channel_fails_all_pending_publishes_and_restarts_numbering(sender: Sender) -> None:
    for key in (1, 2):
        sender.send(key)
    old = sender.channel
    old.lost(exceptions.ChannelClosedByBroker(404, "no exchange"))
    assert sender.outcomes == {1: [PublishUnknown], 2: [PublishUnknown]}
    assert not sender.publisher.ready
    sender.send(3)
    assert sender.outcomes[3] == [BrokerUnavailable]
    await sender.open()
    sender.send(4)
    assert sender.channel.published == ["1"]
    sender.channel.answer(spec.Basic.Ack, 1)
    assert sender.outcomes[4] == [None]


async def test_a_failed_send_uses_no_sequence_number(sender: Sender) -> None:
    sender.send(1)
    sender.send(2, b"too long")
    sender.blocked = True
    sender.send(3)
    sender.blocked = False
    sender.send(4)
    assert (sender.outcomes[2], sender.outcomes[3]) == ([BrokerUnavailable], [BrokerUnavailable])
    assert sender.channel.published == ["1", "2"]
    sender.channel.answer(spec.Basic.Ack, 2)
    assert sender.outcomes[4] == [None]


def test_properties_never_have_a_priority() -> None:
    message = Outgoing("e", "r", b"", {"priority": 9}, persistent=True, expires_ms=5, message_id="m")
    properties = conversion.to_properties(message, "7")
    assert properties.priority is None
    assert (properties.delivery_mode, properties.expiration, properties.message_id) == (2, "5", "m")


@pytest.mark.parametrize(
    "headers",
    [None, {}, {"x-death": None}, {"x-death": []}, {"x-death": [3]}, {"x-death": [{}]}, {"x-delivery-count": "x"}],
)
def test_odd_headers_do_not_raise(headers: Any) -> None:
    assert conversion.death_reason(headers) is None
    assert conversion.delivery_count(headers) == 0
    assert isinstance(conversion.plain_headers(headers), dict)
