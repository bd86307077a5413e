"""Exceptions of the messaging layer: broker unavailable, message not queued or undecodable.

The gateway maps them to HTTP.

WireError
├── UndecodableMessage        the body is not a message of the expected type, or its publisher may not send it
├── UntrustedControl          a control message's signature or timestamp is invalid
├── TooManyAncestors          a child job would be deeper than the platform allows
├── BrokerRefused             the broker refuses a declaration or a consumer
└── PublishError              the broker did not (surely) accept a message
    ├── MessageTooLarge       it is larger than brokers take; it was not sent
    ├── Unroutable            no queue is bound for it; it was not queued
    ├── QueueFull             the queue is at its limit; it was not queued
    ├── BrokerUnavailable     no connection, or blocked by an alarm; it was not queued
    └── PublishUnknown        no confirm arrived before the timeout or disconnect; it may be queued
"""


class WireError(Exception):
    """Base of all errors of `router`."""


class UndecodableMessage(WireError):
    """Raised when a body is not a message that its publisher may send; the text is the dead letter's reason."""


class UntrustedControl(WireError):
    """Raised when a control message is `unsigned`, `forged` or `old`; `reason` is that word."""

    def __init__(self, reason: str) -> None:
        super().__init__(f"{reason} control message")
        self.reason = reason


class BrokerRefused(WireError):
    """Raised when the broker refuses to declare or consume: other arguments (406), permission (403), no queue (404)."""


class TooManyAncestors(WireError):
    """Raised when a job of the largest permitted depth opens a child job: its model may be among its own ancestors."""


class PublishError(WireError):
    """Base of errors of a publish that the broker did not (surely) accept."""


class MessageTooLarge(PublishError):
    """Raised, before anything is sent, for a message that is larger than the broker accepts."""


class Unroutable(PublishError):
    """Raised when the broker returned the message: no queue is bound for its routing key."""


class QueueFull(PublishError):
    """Raised when the broker rejected the message: the queue is at its limit."""


class BrokerUnavailable(PublishError):
    """Raised when no connection is usable: the broker is down or blocks publishers (memory or disk alarm)."""


class PublishUnknown(PublishError):
    """Raised when no confirm arrived: the message may or may not be queued. Never treat this as 'not queued'."""
