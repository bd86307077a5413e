"""Converts messages to and from pika's properties and headers, such as delivery counts and reasons of dead letters.

Functions on incoming data must not raise: they run in pika's callbacks, where an exception closes the connection.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pika
from pika import exceptions

from router.transport.base import HeaderValue, Outgoing

_PERSISTENT = 2


def to_properties(message: Outgoing, correlation_id: str | None) -> pika.BasicProperties:
    """Return pika's AMQP properties of an outgoing message. Never sets `priority`: RabbitMQ 4 would act on it."""
    return pika.BasicProperties(
        content_type="application/json",
        headers=dict(message.headers) or None,
        delivery_mode=_PERSISTENT if message.persistent else None,
        message_id=message.message_id,
        correlation_id=correlation_id,
        expiration=None if message.expires_ms is None else str(message.expires_ms),
    )


def from_return(method: Any, properties: Any, body: bytes) -> Outgoing:
    """Convert what pika passes for a message returned as unroutable (basic.return) to the message that was sent."""
    return Outgoing(
        exchange=method.exchange,
        routing_key=method.routing_key,
        body=body,
        headers=plain_headers(properties.headers),
        message_id=properties.message_id,
        persistent=properties.delivery_mode == _PERSISTENT,
    )


def plain_headers(headers: Mapping[str, Any] | None) -> dict[str, HeaderValue]:
    """Return a received message's headers whose values are strings or integers; drops others, such as AMQP tables."""
    plain = {name: value for name, value in (headers or {}).items() if isinstance(value, str | int)}
    return {name: value if isinstance(value, str | bool) else int(value) for name, value in plain.items()}


def delivery_count(headers: Mapping[str, Any] | None) -> int:
    """Return a message's `x-delivery-count`, set by quorum queues, as `int` (pika has integer types); 0 if absent."""
    count = (headers or {}).get("x-delivery-count", 0)
    return int(count) if isinstance(count, int) else 0


def death_reason(headers: Mapping[str, Any] | None) -> str | None:
    """Return why a message was last dead-lettered, the reason in its first `x-death` entry; `None` if there is none."""
    deaths = (headers or {}).get("x-death")
    if not isinstance(deaths, list) or not deaths or not isinstance(deaths[0], dict):
        return None
    reason = deaths[0].get("reason")
    return reason if isinstance(reason, str) else None


def describe(error: BaseException) -> str:
    """Return a text for logs on a pika error: its innermost cause, such as the operating system's error."""
    inner = _cause(error)
    while inner is not None:
        error, inner = inner, _cause(inner)
    if isinstance(error, exceptions.ChannelClosed | exceptions.ConnectionClosed):
        return f"{error.reply_code} {error.reply_text}"
    return str(error) or type(error).__name__


def _cause(error: BaseException) -> BaseException | None:
    several = getattr(error, "exceptions", None) or [None]
    inner = several[-1] or getattr(error, "exception", None) or (error.args[0] if error.args else None)
    return inner if isinstance(inner, BaseException) else None
