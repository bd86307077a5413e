"""All replies to this gateway come through here: one queue per process, never one per request.

Opens a mailbox for a request's jobs before they are published, so that nothing can be missed. Does not know HTTP, nor
what becomes of what it delivers; which attempt at a job may speak is `failover.py`'s business.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence

from gateway.errors import GenerationError
from gateway.jobs.copies import Copies
from gateway.jobs.failover import Failover
from gateway.jobs.job_progress import Admitted
from gateway.jobs.mailbox import Mailbox
from gateway.jobs.mending import Mending
from gateway.metrics import GatewayMetrics
from router.bus import Bus, TypedSubscription
from router.messages import REAPER, AttemptReport, AttemptState, Delta, Failed, Job, Reply, ResumeRequest, Window


class ReplyInbox:
    """Job id to mailbox, for every request that is running."""

    def __init__(
        self,
        bus: Bus,
        gateway_id: str,
        metrics: GatewayMetrics,
        *,
        max_unread_bytes: int,
        has_room: Callable[[str], bool],
    ) -> None:
        """`has_room` says whether a living worker would begin with a job of a model at once."""
        self.gateway_id = gateway_id
        self._bus = bus
        self._metrics = metrics
        self._max_unread_bytes = max_unread_bytes
        self._mailboxes: dict[str, Mailbox] = {}
        self._copies = Copies(bus)
        self._failover = Failover(bus, metrics, self._copies)
        self._mending = Mending(bus, self._failover, self._copies, has_room)

    def __len__(self) -> int:
        return len(self._mailboxes)

    async def listen(self) -> TypedSubscription[Window]:
        """Open this gateway's reply queue: nothing published from now on is missed."""
        return await self._bus.replies(self.gateway_id)

    async def run(self, windows: TypedSubscription[Window]) -> None:
        """Sort what arrives into the mailboxes until the feed is closed."""
        watching = asyncio.create_task(self._mending.run(self._mailboxes))
        try:
            async for window in windows:
                for reply in window.replies:
                    self._sort(window.worker_id, reply)
        finally:
            watching.cancel()

    def open(self, jobs: Sequence[Job]) -> Mailbox:
        """A mailbox for a request's jobs; call before they are published."""
        mailbox = Mailbox(jobs, self._max_unread_bytes)
        self._mailboxes.update((job.id, mailbox) for job in jobs)
        self._metrics.inbox_jobs.set(len(self))
        return mailbox

    def close(self, jobs: Sequence[Job]) -> None:
        """Forget a request's jobs: what still arrives is dropped. Idempotent."""
        for job in jobs:
            self._mailboxes.pop(job.id, None)
            self._failover.forget(job.id)
            self._mending.forget(job.id)
        self._metrics.inbox_jobs.set(len(self))

    def fail_all(self, error: GenerationError) -> None:
        """End every running request with `error`."""
        for mailbox in set(self._mailboxes.values()):
            mailbox.fail(error)

    def _sort(self, worker: str, reply: Reply) -> None:
        mailbox = self._mailboxes.get(reply.job_id)
        if isinstance(reply, ResumeRequest):
            self._failover.asked(mailbox, worker, reply)
        elif mailbox is None:
            self._metrics.replies_dropped.labels("unknown_job").inc()
            self._metrics.tokens_after_disconnect.inc(reply.positions if isinstance(reply, Delta) else 0)
            self._failover.stop(worker, reply, superseded=False)
        elif isinstance(reply, AttemptReport):
            self._failover.told(mailbox, reply)
            if reply.state is AttemptState.LOST and reply.attempt_id == mailbox.progress[reply.job_id].attempt:
                self._mending.lost(mailbox, reply.job_id)
        elif worker == REAPER and isinstance(reply, Failed) and self._copies.died(mailbox, reply):
            self._failover.message_died(mailbox, reply.job_id)
        elif (admitted := mailbox.deliver(worker, reply)) is not Admitted.NEWS:
            self._metrics.replies_dropped.labels("not_admitted").inc()
            if admitted is Admitted.FENCED:
                self._failover.stop(worker, reply, superseded=True)
            elif admitted is Admitted.GAP:
                self._mending.gap(mailbox, reply.job_id)
