"""Reply inbox of a process that publishes jobs: consumes the one queue to which workers send all replies to its jobs.

A request's jobs are opened here before they are published, so that no reply can be missed.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from functools import partial

from router.bus import Bus, TypedSubscription
from router.messages import Job, Reply, Window
from router.producer.errors import GenerationError
from router.producer.metrics import ProducerMetrics
from router.producer.recovery_driver import AvailabilityOf, OpenJob, RecoveryDriver
from router.producer.recovery_events import ReplyReceived, RequestClosed
from router.producer.unread_replies import UnreadReplies
from router.timings import Timings


class ReplyInbox:
    """Reader of this process's reply queue: dispatches replies to the jobs of open requests by job id."""

    def __init__(
        self,
        bus: Bus,
        own_id: str,
        metrics: ProducerMetrics,
        *,
        max_unread_bytes: int,
        availability: AvailabilityOf,
        timings: Timings,
    ) -> None:
        """`availability` is that of the model registry."""
        self.own_id = own_id
        """Id of this process as `Job.reply_to`."""
        self._bus = bus
        self._metrics = metrics
        self._max_unread_bytes = max_unread_bytes
        self._jobs: dict[str, OpenJob] = {}
        self._recovery = RecoveryDriver(bus, own_id, metrics, timings, availability)
        bus.on_control_unroutable(lambda target: self._recovery.unreachable(target, self._jobs))

    def __len__(self) -> int:
        return len(self._jobs)

    async def listen(self) -> TypedSubscription[Window]:
        """Create this process's reply queue at the broker and subscribe to it, before any job is published."""
        return await self._bus.replies(self.own_id)

    async def run(self, windows: TypedSubscription[Window]) -> None:
        """Pass the replies in `windows` (of `listen`) to their jobs, and run job recovery, until `windows` ends."""
        async with asyncio.TaskGroup() as tasks:  # if recovery dies, this fails too
            recovering = tasks.create_task(self._recovery.run(self._jobs))
            async for window in windows:
                for reply in window.replies:
                    self._dispatch(window.worker_id, reply)
            recovering.cancel()

    def open(self, jobs: Sequence[Job]) -> list[OpenJob]:
        """Register one request's `jobs` for replies, and return their states, in order.

        Call it before they are published.
        """
        opened: list[OpenJob] = []
        unread = UnreadReplies(self._max_unread_bytes, partial(self._failed, opened))
        opened += (self._recovery.open(number, job, unread) for number, job in enumerate(jobs))
        self._jobs.update((job.recovery.job.id, job) for job in opened)
        self._metrics.inbox_jobs.set(len(self))
        return opened

    def close(self, jobs: Sequence[OpenJob], *, cancel: bool) -> None:
        """End the registration of one request's jobs; later replies are dropped.

        With `cancel`, workers stop unended jobs.
        """
        for job in jobs:
            if self._jobs.pop(job.recovery.job.id, None) is not None:
                self._recovery.close(job, cancel=cancel)
            job.unread.detach()
        self._metrics.inbox_jobs.set(len(self))

    def fail_all(self, error: GenerationError) -> None:
        """Fail every open request of this process: `error` is raised in its reader, after the replies it has got."""
        for job in list(self._jobs.values()):
            job.unread.fail(error)

    def _dispatch(self, worker_id: str, reply: Reply) -> None:
        job = self._jobs.get(reply.job_id)
        if job is None:
            self._recovery.dismiss(worker_id, reply)
        else:
            self._recovery.handle(job, ReplyReceived(worker_id, reply))

    def _failed(self, jobs: Sequence[OpenJob]) -> None:
        """Accept no more replies for a request that has failed; its task closes it."""
        for job in jobs:
            self._recovery.handle(job, RequestClosed(cancel=False))
