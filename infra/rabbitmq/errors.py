"""Why a private RabbitMQ node does not run.

BrokerError
├── BrokerNotInstalled   a program is missing on this machine
└── BrokerFailed         it is there, but it did not come up, or a command on it failed
"""


class BrokerError(Exception):
    """Base of this package's errors; each message is one line for the operator."""


class BrokerNotInstalled(BrokerError):
    """`rabbitmq-server` or Erlang is not installed."""


class BrokerFailed(BrokerError):
    """The node did not start in time, or `rabbitmqctl` failed."""
