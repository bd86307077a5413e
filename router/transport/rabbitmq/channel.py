"""Wraps pika's connections and channels in coroutines, without reconnection (`supervisor.py` adds it).

Every request to the broker has a timeout and fails at once if the channel closes. Callbacks given to pika must only set
futures or enqueue. Raises pika's `AMQPError` and `TimeoutError`; callers in this package translate them.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import pika
from pika import exceptions, spec
from pika.adapters.asyncio_connection import AsyncioConnection

from router.topology import Topology
from router.transport.base import Outgoing
from router.transport.rabbitmq import conversion
from router.transport.rabbitmq.stream import StreamServices

RPC_TIMEOUT = 5.0
"""Seconds in which a request must be answered: a broker that has just restarted may not answer for a minute ("leader
not known")."""

OnLost = Callable[[BaseException], None]


class Channel:
    """An AMQP channel. The future `closed` is set to the reason when the channel closes."""

    def __init__(self, raw: Any) -> None:
        self._raw = raw
        self.closed: asyncio.Future[BaseException] = asyncio.get_running_loop().create_future()
        self._on_lost: OnLost | None = None
        self._on_empty: Callable[[None], None] = lambda _nothing: None
        raw.add_on_close_callback(self._has_closed)

    @property
    def is_open(self) -> bool:
        """Whether the AMQP channel is open, so that it can be used."""
        return not self.closed.done() and bool(self._raw.is_open)

    def when_lost(self, callback: OnLost) -> None:
        """Set the callback that gets the reason when either side closes the channel; called at once if it is closed."""
        self._on_lost = callback
        if self.closed.done():
            callback(self.closed.result())

    def publish(self, message: Outgoing, *, mandatory: bool, correlation_id: str | None = None) -> None:
        """Write one message to the channel's connection, without waiting for a confirm."""
        self._raw.basic_publish(
            message.exchange,
            message.routing_key,
            message.body,
            conversion.to_properties(message, correlation_id),
            mandatory=mandatory,
        )

    def on_return(self, callback: Callable[[Any, Any, bytes], None]) -> None:
        """Register `callback(method, properties, body)`, called for each unroutable message that the broker returns."""
        self._raw.add_on_return_callback(lambda _channel, method, properties, body: callback(method, properties, body))

    def ack(self, tag: int) -> None:
        """Acknowledge the delivery with delivery tag `tag`, so that the broker removes its message."""
        self._raw.basic_ack(tag)

    def reject(self, tag: int, *, requeue: bool) -> None:
        """Reject the delivery with delivery tag `tag`: requeued if `requeue`, else dead-lettered."""
        self._raw.basic_reject(tag, requeue=requeue)

    async def confirm(self, callback: Callable[[Any], None]) -> None:
        """Turn on publisher confirms on the channel; `callback(frame)` gets the broker's acks and nacks."""
        await self._rpc(self._raw.confirm_delivery, ack_nack_callback=callback)

    async def declare(self, topology: Topology) -> None:
        """Declare the durable exchanges, queues and bindings of `topology` over this channel (idempotent)."""
        for exchange in topology.exchanges:
            await self._rpc(
                self._raw.exchange_declare, exchange=exchange.name, exchange_type=exchange.type, durable=True
            )
        for queue in topology.queues:
            await self._rpc(self._raw.queue_declare, queue=queue.name, durable=True, arguments=dict(queue.arguments))
        for binding in topology.bindings:
            await self.bind(binding.queue, binding.exchange, binding.routing_key)

    async def bind(self, queue: str, exchange: str, routing_key: str) -> None:
        """Bind the queue to the exchange with a routing key, over this channel."""
        await self._rpc(self._raw.queue_bind, queue=queue, exchange=exchange, routing_key=routing_key)

    async def declare_private(self, arguments: Mapping[str, str | int]) -> str:
        """Declare an exclusive auto-delete queue over this channel, and return its server-generated name.

        Server-named, because the broker keeps the old queue for half a minute after a half-open connection.
        """
        frame = await self._rpc(
            self._raw.queue_declare, queue="", exclusive=True, auto_delete=True, arguments=dict(arguments)
        )
        return str(frame.method.queue)

    async def consume(
        self,
        queue: str,
        on_message: Callable[[Any, Any, bytes], None],
        *,
        tag: str,
        auto_ack: bool,
        prefetch: int = 0,
        priority: int = 0,
    ) -> None:
        """Start consuming `queue` with consumer tag `tag`; `on_message` gets each delivery.

        If the broker cancels the consumer (queue deleted), the channel is closed.
        """
        if prefetch:
            await self._rpc(self._raw.basic_qos, prefetch_count=prefetch)
        self._raw.add_on_cancel_callback(lambda _frame: self.close("consumer cancelled by the broker"))
        await self._rpc(
            self._raw.basic_consume,
            queue=queue,
            on_message_callback=lambda _channel, method, properties, body: on_message(method, properties, body),
            auto_ack=auto_ack,
            consumer_tag=tag,
            arguments={"x-priority": priority} if priority else None,
        )

    def watch_empty(self) -> None:
        """Register a callback so that `get` can recognise an empty queue (basic.get-empty).

        Call it once, before any `get`.
        """
        self._raw.add_callback(lambda _frame: self._on_empty(None), [spec.Basic.GetEmpty], one_shot=False)

    async def get(self, queue: str) -> tuple[Any, Any, bytes] | None:
        """Take the next message of `queue`, to be settled: (method, properties, body), or `None` if none is ready."""

        def get(callback: Callable[[Any], None]) -> None:
            self._on_empty = callback
            self._raw.basic_get(queue=queue, callback=lambda _channel, *message: callback(message))

        message: tuple[Any, Any, bytes] | None = await self._rpc(get)
        return message

    async def cancel(self, tag: str) -> None:
        """Cancel the consumer with tag `tag`; its received deliveries stay unsettled."""
        await self._rpc(self._raw.basic_cancel, consumer_tag=tag)

    def close(self, reason: str = "done") -> None:
        """Close the channel, giving the broker `reason`, without waiting for its answer."""
        if self._raw.is_open:
            self._raw.close(reply_text=reason)

    def _has_closed(self, _raw: Any, reason: BaseException) -> None:
        if self.closed.done():
            return
        self.closed.set_result(reason)
        if self._on_lost is not None:
            self._on_lost(reason)

    async def _rpc(self, method: Callable[..., Any], **arguments: Any) -> Any:
        answer: asyncio.Future[Any] = asyncio.get_running_loop().create_future()
        method(**arguments, callback=_setter(answer))
        await asyncio.wait({answer, self.closed}, timeout=RPC_TIMEOUT, return_when=asyncio.FIRST_COMPLETED)
        if answer.done():
            return answer.result()
        if self.closed.done():
            raise _as_amqp(self.closed.result())
        raise TimeoutError(f"no answer from the broker within {RPC_TIMEOUT:.0f} s")


class _AsyncioConnection(AsyncioConnection):  # type: ignore[misc]  # pika has no types
    """pika's connection, writing the frames of a message at once: singly, each costs both sides a system call."""

    def _output_marshaled_frames(self, marshaled_frames: Sequence[bytes]) -> None:
        super()._output_marshaled_frames([b"".join(marshaled_frames)])


class Connection:
    """An AMQP connection. The future `closed` is set to the reason when the connection closes."""

    def __init__(self, raw: AsyncioConnection, closed: asyncio.Future[BaseException]) -> None:
        self._raw = raw
        self.closed = closed

    @classmethod
    async def open(cls, parameters: pika.URLParameters) -> Connection:
        """Open an AMQP connection and return it, within the timeouts of the parameters.

        Raises:
            pika.exceptions.AMQPError: the connection failed.
        """
        loop = asyncio.get_running_loop()
        opened: asyncio.Future[None] = loop.create_future()
        closed: asyncio.Future[BaseException] = loop.create_future()
        raw = _AsyncioConnection(
            parameters,
            on_open_callback=lambda _connection: _set(opened, None),
            on_open_error_callback=lambda _connection, error: _fail(opened, error),
            on_close_callback=lambda _connection, reason: _set(closed, reason),
            custom_ioloop=StreamServices(loop),
        )
        try:
            await opened
        except asyncio.CancelledError:
            if not raw.is_closed:
                raw.close()
            raise
        return cls(raw, closed)

    @property
    def unsent_bytes(self) -> int:
        """Number of bytes that are not yet written to the connection's socket."""
        stream = self._raw._transport  # pika has no public name for it
        return 0 if stream is None else int(stream.get_write_buffer_size())

    def on_blocked(self, callback: Callable[[bool], None]) -> None:
        """Register `callback(blocked)`, called when an alarm of the broker starts or stops blocking publishes."""
        self._raw.add_on_connection_blocked_callback(lambda *_: callback(True))
        self._raw.add_on_connection_unblocked_callback(lambda *_: callback(False))

    async def channel(self) -> Channel:
        """Open and return a new channel on this connection."""
        opened: asyncio.Future[Any] = asyncio.get_running_loop().create_future()
        raw = self._raw.channel(on_open_callback=_setter(opened))
        channel = Channel(raw)
        await asyncio.wait(
            {opened, channel.closed, self.closed}, timeout=RPC_TIMEOUT, return_when=asyncio.FIRST_COMPLETED
        )
        if opened.done() and channel.is_open:
            return channel
        raise exceptions.ChannelClosed(0, "channel did not open")

    async def close(self) -> None:
        """Close the AMQP connection gracefully: data written before reaches the broker."""
        if self._raw.is_open:
            self._raw.close()
        await asyncio.wait({self.closed}, timeout=RPC_TIMEOUT)


def _setter(future: asyncio.Future[Any]) -> Callable[[Any], None]:
    return lambda value: _set(future, value)


def _set(future: asyncio.Future[Any], value: Any) -> None:
    if not future.done():
        future.set_result(value)


def _fail(future: asyncio.Future[Any], error: BaseException | str) -> None:
    if not future.done():
        future.set_exception(_as_amqp(error))


def _as_amqp(error: BaseException | str) -> exceptions.AMQPError:
    """Return `error` as an `AMQPError`: pika reports some errors as `OSError` or text."""
    known: exceptions.AMQPError = (
        error if isinstance(error, exceptions.AMQPError) else exceptions.AMQPConnectionError(error)
    )
    return known
