"""Exceptions of a private RabbitMQ node.

BrokerError
├── BrokerNotInstalled   RabbitMQ or Erlang is not installed
└── BrokerFailed         the node did not start, or `rabbitmqctl` or `apt-get` failed
"""


class BrokerError(Exception):
    """Base of this package's errors; each message is one line for the operator."""


class BrokerNotInstalled(BrokerError):
    """Raised when `rabbitmq-server` or Erlang is not installed."""


class BrokerFailed(BrokerError):
    """Raised when the node did not start before the timeout, or `rabbitmqctl` or `apt-get` failed."""
