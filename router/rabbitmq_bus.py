"""Factory of a process's message bus over RabbitMQ, from its settings: broker URL and control secret."""

from __future__ import annotations

from router.bus import Bus
from router.control_signing import control_signer
from router.transport.rabbitmq import RabbitMQTransport
from runtime.lifecycle import StartupError


def check_amqp_url(url: str) -> str:
    """Return the broker's URL unchanged if the setting is not empty.

    Raises:
        StartupError: none is set.
    """
    if not url:
        raise StartupError("no broker given: set HEADRACE_AMQP_URL, for example amqp://user:password@127.0.0.1:5672/")
    return url


def rabbitmq_bus(url: str, name: str, control_secret: str) -> Bus:
    """Create a message bus over RabbitMQ for the process `name`, not connected yet, signing by `control_secret`.

    Raises:
        StartupError: there is no URL, or the secret is missing or too short.
    """
    return Bus(RabbitMQTransport(check_amqp_url(url), name=name), control_signer(control_secret))
