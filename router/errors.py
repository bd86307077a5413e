"""What can go wrong on the wire. Knows no HTTP: `gateway/errors.py` translates.

WireError
├── UndecodableMessage        a body that is not the message it should be
├── UntrustedControl          a control message that nobody who may send any has just sent
├── BrokerRefused             the broker says no to a declaration or a consumer
└── PublishError              a message that was not taken by the broker
    ├── Unroutable            no queue is bound for it (nothing happened)
    ├── QueueFull             the broker refused it (nothing happened)
    ├── BrokerUnavailable     no connection, or blocked by an alarm (nothing happened)
    └── PublishUnknown        the connection went, or no answer came in time: it may have happened
"""


class WireError(Exception):
    """Base of all errors of `router`."""


class UndecodableMessage(WireError):
    """A body that is not the message it should be; goes to the dead letters with this reason."""


class UntrustedControl(WireError):
    """A control message that is unsigned, forged or old; `reason` is that word."""

    def __init__(self, reason: str) -> None:
        super().__init__(f"{reason} control message")
        self.reason = reason


class BrokerRefused(WireError):
    """The broker refuses to declare or consume: other arguments (406), no permission (403), no such queue (404)."""


class PublishError(WireError):
    """A message that was not (surely) taken by the broker."""


class Unroutable(PublishError):
    """The broker returned the message: no queue is bound for its routing key."""


class QueueFull(PublishError):
    """The broker refused the message: the queue is at its limit."""


class BrokerUnavailable(PublishError):
    """There is no usable connection: the broker is away, or blocks publishers (memory or disk alarm)."""


class PublishUnknown(PublishError):
    """No answer came: the message may or may not be queued. Never treat this as 'not queued'."""
