"""What a gateway does when a running answer has a gap, or falls silent
(docs/design/reliability-contract.md#F3, F7 to F9).

A gap is asked for again. An attempt that is silent is asked whether it is alive; one that does not answer, or says that
it has lost the job, is given up: the job is published again, and whoever takes it asks how it goes on (`failover.py`).
Silence while the broker is away is nobody's. But a job that was queued before the broker came back, of which nothing is
heard soon after, may have been done from beginning to end unheard: it is published again. So is one of which nothing is
heard though living workers have room: it was given to one that stands still, or is cut off. Knows no HTTP.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Iterable

import structlog

from gateway.errors import RepliesLost, WorkerLost
from gateway.jobs.copies import Copies
from gateway.jobs.failover import Failover
from gateway.jobs.mailbox import Mailbox
from router.bus import Bus
from router.transport.base import ConnectionState

LOOK_SECONDS = 0.5
PING_SECONDS = 5.0
"""An attempt that was silent for so long is asked whether it is alive."""
GIVE_UP_SECONDS = 10.0
"""One that was silent for so long, though asked, is given up, and a copy of the job published."""
UNHEARD_SECONDS = 5.0
"""Nobody having begun with a job, as far as this gateway knows, since the broker's return, or though there is room."""
TAKEN_SECONDS = 0.4
"""In which somebody asks how a copy goes on, unless all are busy or still away, or it was given to the very worker that
hangs: then another copy is published, `QUICK_COPIES` in such a hurry, the rest every `GIVE_UP_SECONDS`."""
QUICK_COPIES = 6
GAP_SECONDS = 0.25
"""Between two requests for what is missing; as many as `GAP_TRIES` for the same."""
GAP_TRIES = 80
"""In which whoever has to say it again comes back from a broker's death too; those of its absence are not counted."""

_log = structlog.get_logger(__name__)


class Mending:
    """One gateway's watch over its answers. Use on the event loop only."""

    def __init__(self, bus: Bus, failover: Failover, copies: Copies, has_room: Callable[[str], bool]) -> None:
        """`has_room` says whether a living worker would begin with a job of a model at once."""
        self._bus = bus
        self._failover = failover
        self._copies = copies
        self._has_room = has_room
        self._gaps: dict[str, tuple[list[int], int]] = {}
        """By job with a gap: what it had, and how often the rest was asked for."""
        self._blind = float("-inf")
        """When the broker was last seen to be away, or to take nothing."""

    async def run(self, mailboxes: dict[str, Mailbox]) -> None:
        """Look after `mailboxes`, by job, for ever."""
        while True:
            await asyncio.sleep(LOOK_SECONDS)
            if self._bus.state is ConnectionState.UP:
                self._look(list(mailboxes.items()))
            else:
                self._blind = time.monotonic()

    def forget(self, job: str) -> None:
        """Nobody waits for a job any more."""
        self._gaps.pop(job, None)

    def gap(self, mailbox: Mailbox, job: str) -> None:
        """Something of a job's answer is missing."""
        if job not in self._gaps:
            self._ask_for_missing(mailbox, job)

    def lost(self, mailbox: Mailbox, job: str) -> None:
        """Have another worker take a job, unless that was just asked for; if the old one was only slow, it keeps it."""
        progress = mailbox.progress[job]
        patience = TAKEN_SECONDS if progress.copied_in_vain < QUICK_COPIES else GIVE_UP_SECONDS
        if time.monotonic() - progress.copied_at < patience:
            return
        if not self._copies.publish(mailbox, job):
            mailbox.fail(WorkerLost())

    def _ask_for_missing(self, mailbox: Mailbox, job: str) -> None:
        progress = mailbox.progress[job]
        had, tries = self._gaps.pop(job, ([], 0))
        if progress.ended or mailbox.failed or (had and had != progress.have):
            return  # mended
        if tries >= GAP_TRIES:
            mailbox.fail(RepliesLost())
            return
        self._gaps[job] = progress.have, tries + (self._bus.state is ConnectionState.UP)
        self._failover.ping(mailbox, job)
        asyncio.get_running_loop().call_later(GAP_SECONDS, self._look_at_gap, mailbox, job)

    def _look_at_gap(self, mailbox: Mailbox, job: str) -> None:
        if job in self._gaps:
            self._ask_for_missing(mailbox, job)

    def _look(self, watched: Iterable[tuple[str, Mailbox]]) -> None:
        now = time.monotonic()
        for job, mailbox in watched:
            progress = mailbox.progress[job]
            if progress.ended or mailbox.failed:
                continue
            if progress.attempt is None:
                self._look_at_unheard(mailbox, job, now)
                continue
            silence = now - max(progress.heard, self._bus.lost_at, self._blind)
            if progress.heard < self._bus.lost_at or silence >= PING_SECONDS:
                self._failover.ping(mailbox, job)
            if silence >= GIVE_UP_SECONDS and not progress.let_go:
                self.lost(mailbox, job)

    def _look_at_unheard(self, mailbox: Mailbox, job: str, now: float) -> None:
        """Publish a job again: once for each absence of the broker, if all that was said of it may be lost, and while
        there is room for it, until somebody has it who is not standing still.

        If it is still in its queue, whoever is given the second of the two messages asks, and lets it be.
        """
        progress, back = mailbox.progress[job], max(self._bus.lost_at, self._blind)
        last = max(progress.queued_at, progress.copied_at)
        if last <= back + LOOK_SECONDS:
            overdue = now - back >= UNHEARD_SECONDS
        else:
            patience = TAKEN_SECONDS if progress.copied_in_vain else UNHEARD_SECONDS
            in_hurry = progress.copied_in_vain < QUICK_COPIES
            overdue = in_hurry and now - last >= patience and self._has_room(mailbox.jobs[job].model)
        if overdue:
            self._copies.publish(mailbox, job)
