"""Dead letters as people meet them: what lies in the three queues, in words, and what can be done with it.

    hr.dead.v1        jobs that died in their queue and wait for the reaper to close them
    hr.parked.v1      usage records and receipts that could not be read, or can't be true
    hr.diagnosed.v1   jobs that were given up and are closed, with their diagnosis; bounded in number, size and age

Looking takes messages without settling them, so whoever looks may die at any moment: they go back. Nothing here knows
the store, or how anything is shown.
"""

from __future__ import annotations

import hashlib
from collections.abc import AsyncIterator
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

from router import messages, topology
from router.bus import Bus
from router.diagnosis import AT_HEADER, BY_HEADER, CODE_HEADER, DEATHS_HEADER, REASON_HEADER
from router.errors import UndecodableMessage
from router.messages import Job, Receipt, Settlement, UsageRecord
from router.transport.base import Browser, Delivery

QUEUES = (topology.DEAD_QUEUE, topology.PARKED_QUEUE, topology.DIAGNOSED_QUEUE)
TRACE_HEADER = "traceparent"


class Kind(StrEnum):
    """What a dead letter is."""

    JOB = "job"
    USAGE = "usage"
    RECEIPT = "receipt"
    UNREADABLE = "unreadable"


@dataclass(frozen=True)
class DeadLetter:
    """One message and what is known of its death; `message` is `None` if it can't be read."""

    queue: str
    delivery: Delivery
    message: Job | Settlement | None

    @property
    def id(self) -> str:
        """The id of its job; of what has none, the beginning of its body's SHA-256."""
        match self.message:
            case Job():
                return self.message.id
            case UsageRecord() | Receipt():
                return self.message.job
        return self.delivery.message_id or f"body-{hashlib.sha256(self.delivery.body).hexdigest()[:12]}"

    @property
    def kind(self) -> Kind:
        """What it is."""
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
        """The model asked, as far as known."""
        return self.message.model if isinstance(self.message, Job | UsageRecord) else ""

    @property
    def reason(self) -> str:
        """Why it died, in words."""
        said = self.delivery.headers.get(REASON_HEADER)
        return str(said or self.delivery.death_reason or "")

    @property
    def code(self) -> str:
        """What its caller was told, if it is closed."""
        return str(self.delivery.headers.get(CODE_HEADER, ""))

    @property
    def by(self) -> str:
        """Who closed it, if it is closed."""
        return str(self.delivery.headers.get(BY_HEADER, ""))

    @property
    def deaths(self) -> int:
        """How often something died with it, or it was returned; 0: not known."""
        return int(self.delivery.headers.get(DEATHS_HEADER, 0))

    @property
    def at(self) -> float | None:
        """When it was closed, or else came to be (Unix seconds)."""
        if AT_HEADER in self.delivery.headers:
            return float(self.delivery.headers[AT_HEADER])
        if isinstance(self.message, Job):
            return self.message.created
        return None if self.message is None else self.message.at

    @property
    def closed(self) -> bool:
        """Whether it is a job whose caller has been told."""
        return self.queue == topology.DIAGNOSED_QUEUE

    @property
    def headers(self) -> dict[str, Any]:
        """What it was sent with."""
        return dict(self.delivery.headers)


class DeadLetters:
    """All dead letters of a started bus, queue by queue; an async context, iterated once.

    What is neither dropped nor replayed goes back to its place when the context is left.
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
        """Publish it again where it came from, confirmed, and only then take it out: at worst it is there twice.

        Raises:
            ValueError: it can't be read.
            PublishError: it was not queued, and stays here.
        """
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
        """Take it out for good."""
        letter.delivery.ack()


def _read(queue: str, body: bytes) -> Job | Settlement | None:
    try:
        return messages.SETTLEMENTS.decode(body) if queue == topology.PARKED_QUEUE else messages.JOBS.decode(body)
    except UndecodableMessage:
        return None
