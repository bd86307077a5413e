"""Lists, replays and drops dead letters, the messages of the three dead-letter queues, for operators' commands.

    hr.dead.v1        dead-lettered jobs that the reaper has not closed yet
    hr.parked.v1      usage records and receipts that are undecodable or implausible
    hr.diagnosed.v1   jobs that failed for good, with their diagnosis; bounded in number, size and age

Listing takes messages without settling them: if the process dies, the broker puts them back.
"""

from __future__ import annotations

import hashlib
from collections.abc import AsyncIterator
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

from router import messages, topology
from router.bus import FORGED_RECEIPT, Bus
from router.diagnosis import AT_HEADER, BY_HEADER, CODE_HEADER, DEATHS_HEADER, REASON_HEADER
from router.errors import UndecodableMessage
from router.messages import Job, Receipt, Settlement, UsageRecord
from router.transport.base import Browser, Delivery

QUEUES = (topology.DEAD_QUEUE, topology.PARKED_QUEUE, topology.DIAGNOSED_QUEUE)
TRACE_HEADER = "traceparent"


class Kind(StrEnum):
    """Type of a dead letter."""

    JOB = "job"
    USAGE = "usage"
    RECEIPT = "receipt"
    UNREADABLE = "unreadable"


@dataclass(frozen=True)
class DeadLetter:
    """A dead-lettered message with the reason; `message` is `None` if the body is undecodable."""

    queue: str
    delivery: Delivery
    message: Job | Settlement | None

    @property
    def id(self) -> str:
        """Id of the dead letter for commands: the job's id, else the message's, else a prefix of the body's SHA-256."""
        match self.message:
            case Job():
                return self.message.id
            case UsageRecord() | Receipt():
                return self.message.job
        return self.delivery.message_id or f"body-{hashlib.sha256(self.delivery.body).hexdigest()[:12]}"

    @property
    def kind(self) -> Kind:
        """Type of the dead-lettered message: job, usage record, receipt, or undecodable."""
        match self.message:
            case Job():
                return Kind.JOB
            case UsageRecord():
                return Kind.USAGE
            case Receipt():
                return Kind.RECEIPT
        return Kind.UNREADABLE

    @property
    def model(self) -> str:
        """Name of the model of a dead-lettered job; empty for receipts and undecodable messages."""
        return self.message.model if isinstance(self.message, Job | UsageRecord) else ""

    @property
    def reason(self) -> str:
        """Text for operators on why the message was dead-lettered; "" if unknown."""
        reason = self.delivery.headers.get(REASON_HEADER)
        return str(reason or self.delivery.death_reason or "")

    @property
    def code(self) -> str:
        """Failure code that the job's client received; empty if the job is not closed."""
        return str(self.delivery.headers.get(CODE_HEADER, ""))

    @property
    def closed_by(self) -> str:
        """Id of the worker that closed the job, or `reaper`; empty if the job is not closed."""
        return str(self.delivery.headers.get(BY_HEADER, ""))

    @property
    def deaths(self) -> int:
        """Number of times that the job crashed a worker or was requeued; 0 if unknown."""
        deaths = self.delivery.headers.get(DEATHS_HEADER)
        return deaths if isinstance(deaths, int) else 0

    @property
    def at(self) -> float | None:
        """Unix time at which the job was closed, else at which the message was created; `None` if undecodable."""
        if isinstance(at := self.delivery.headers.get(AT_HEADER), int):
            return float(at)
        if isinstance(self.message, Job):
            return self.message.created
        return None if self.message is None else self.message.at

    @property
    def closed(self) -> bool:
        """Whether the dead letter is a job whose client has received the failure."""
        return self.queue == topology.DIAGNOSED_QUEUE

    @property
    def forged(self) -> bool:
        """Whether this is a receipt that perhaps no gateway published; a replay of the receipt would settle its job.

        The broker parks a receipt, with a cause of its own, only if billing has refused it and could not say why.
        """
        is_refused = self.reason == FORGED_RECEIPT or self.delivery.death_reason is not None
        return isinstance(self.message, Receipt) and is_refused

    @property
    def headers(self) -> dict[str, Any]:
        """AMQP headers of the dead-lettered message, by name."""
        return dict(self.delivery.headers)


class DeadLetters:
    """Iterator over the messages of the three dead-letter queues: an async context manager, to be iterated once.

    On exit the letters that were neither dropped nor replayed return to their positions.
    """

    def __init__(self, bus: Bus) -> None:
        self._bus = bus
        self._browsers: list[Browser] = []

    async def __aenter__(self) -> DeadLetters:
        return self

    async def __aexit__(self, *_error: object) -> None:
        for browser in self._browsers:
            await browser.close()

    async def __aiter__(self) -> AsyncIterator[DeadLetter]:
        for queue in QUEUES:
            browser = await self._bus.browse(queue)
            self._browsers.append(browser)
            while (delivery := await browser.get()) is not None:
                yield DeadLetter(queue, delivery, _read(queue, delivery.body))

    async def replay(self, letter: DeadLetter) -> None:
        """Republish one dead letter to its original exchange, confirmed, then remove it.

        A crash in between leaves both.

        Raises:
            ValueError: the letter is undecodable, or a forged receipt.
            PublishError: the message was not queued, and stays a dead letter.
        """
        if letter.forged:
            raise ValueError(FORGED_RECEIPT)
        match letter.message:
            case Job():
                trace = letter.delivery.headers.get(TRACE_HEADER)
                await self._bus.publish_job(letter.message, {} if trace is None else {TRACE_HEADER: trace})
            case UsageRecord() | Receipt():
                await self._bus.publish_settlement(letter.message)
            case None:
                raise ValueError("what can't be read can't be replayed")
        letter.delivery.ack()

    def drop(self, letter: DeadLetter) -> None:
        """Delete one dead letter from its queue for good."""
        letter.delivery.ack()


def _read(queue: str, body: bytes) -> Job | Settlement | None:
    try:
        return messages.SETTLEMENTS.decode(body) if queue == topology.PARKED_QUEUE else messages.JOBS.decode(body)
    except UndecodableMessage:
        return None
