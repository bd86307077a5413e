"""Publishes jobs again: because whoever had one is given up, or because its message has been returned often.

A broker gives a message out so many times, then takes it for poison (`JOB_DELIVERY_LIMIT`), though what returned it may
have been kills, drains and restarts. What is poison only the gateway knows
(docs/design/queue-topology.md#poison): so long before the limit it
publishes a fresh copy. The copy changes nothing for a worker that runs the job: whoever takes it asks (`failover.py`),
and waits. What becomes of older copies is of no account then, their dead letters neither. Knows no HTTP.
"""

from __future__ import annotations

import asyncio

import msgspec
import structlog

from gateway.jobs.mailbox import Mailbox
from router.bus import Bus
from router.errors import PublishError
from router.messages import Failed, FailureCode, ResumeRequest
from router.topology import JOB_DELIVERY_LIMIT

COPIES = 12
"""A job is published again so often at most while its answer gets no further."""
WORN = JOB_DELIVERY_LIMIT // 2
"""Returned so often, a message is replaced: some workers may die with it before they could ask."""

_log = structlog.get_logger(__name__)


class Copies:
    """Of one gateway's jobs. Use on the event loop only."""

    def __init__(self, bus: Bus) -> None:
        self._bus = bus
        self._publishing: dict[str, asyncio.Task[None]] = {}

    def publish(self, mailbox: Mailbox, job: str) -> bool:
        """Have a fresh copy queued, unless one is on its way; false: it has been tried too often in vain."""
        progress = mailbox.progress[job]
        if progress.copied_in_vain >= COPIES and not progress.moved_since_copy:
            return False
        if job not in self._publishing:
            self._publishing[job] = asyncio.create_task(self._publish(mailbox, job))
        return True

    def asked(self, mailbox: Mailbox, question: ResumeRequest) -> None:
        """A worker was given a job again: replace its message in time."""
        if question.delivery_count >= WORN and question.copy_number == mailbox.progress[question.job_id].newest_copy:
            self.publish(mailbox, question.job_id)

    def died(self, mailbox: Mailbox, letter: Failed) -> bool:
        """Whether the job goes on though its message has died: returned too often, but not in vain."""
        progress = mailbox.progress[letter.job_id]
        if progress.ended or mailbox.failed or letter.code is not FailureCode.FAILED_REPEATEDLY:
            return False
        if letter.copy_number < progress.newest_copy:
            return True
        return progress.moved_since_copy and self.publish(mailbox, letter.job_id)

    async def _publish(self, mailbox: Mailbox, job: str) -> None:
        progress = mailbox.progress[job]
        number = progress.next_copy()
        try:
            await self._bus.publish_job(msgspec.structs.replace(mailbox.jobs[job], copy_number=number), mailbox.headers)
            progress.copied(number)
            _log.info("job was published again", job=job, copy=number, after=progress.tokens)
        except PublishError as error:
            _log.warning("job not published again", job=job, reason=str(error))
        finally:
            del self._publishing[job]
