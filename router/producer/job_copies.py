"""Decides when the publisher of a job publishes another copy of its message, and which copy counts (for `recovery.py`).

The broker dead-letters a message that was returned often, although kills, drains and restarts may have returned it;
only the job's publisher can tell those from poison. So it publishes fresh, numbered copies while the answer makes
progress. While all workers load the model, or are full, the copies that are published wait for them and no more are
added, so that waiting does not use up the limit.
"""

from __future__ import annotations

import math

from router.model_registry import Availability
from router.producer.recovery_events import BrokerHealth, Command, Republish
from router.timings import Timings


class JobCopies:
    """Copies of one job's message.

    An argument `extent` is the size of the output accepted so far (`JobOutput.extent`).
    """

    def __init__(self, timings: Timings) -> None:
        self.newest = 0
        """The latest copy that the broker confirmed; 0 is the original."""
        self._timings = timings
        self._queued_at, self._republished_at = math.inf, -math.inf
        self._publishing = False
        self._last = 0
        self._futile = 0
        """Copies in a row without progress between them."""
        self._extent = 0
        """Extent of the output at the newest copy."""
        self._unclaimed = self._handed_back = False
        """Whether no worker has requested to run the newest copy; whether one has handed it back since."""

    def publish(self, extent: int) -> list[Command] | None:
        """Number a new copy of the job's message, and return the command that publishes it, as a list.

        Return `[]` while one is being published, `None` after too many copies without progress of the answer.
        """
        if self._futile >= self._timings.republish_limit and not self.outgrown(extent):
            return None
        if self._publishing:
            return []
        self._publishing = True
        self._last += 1
        return [Republish(self._last)]

    def replace_dead(self, extent: int) -> list[Command] | None:
        """Return the command that replaces the dead-lettered newest copy by another one, as `publish` returns it.

        Return `None` unless the answer has grown since that copy, or a worker handed the job back.
        """
        return self.publish(extent) if self.outgrown(extent) or self._handed_back else None

    def claimed(self, copy_number: int) -> None:
        """Record that a worker asked the gateway for permission to run the job's copy `copy_number`."""
        self._unclaimed = self._unclaimed and copy_number < self.newest

    def handed_back(self) -> None:
        """Record that a worker returned the job to its queue deliberately, so that its copies were not futile."""
        self._futile, self._handed_back = 0, True

    def returned(self, copy_number: int) -> None:
        """Record that a worker returns job copy `copy_number` to the queue: only another worker can continue it."""
        self.handed_back()
        self._unclaimed = self._unclaimed or copy_number >= self.newest

    def wait_in_queue(self, extent: int, availability: Availability) -> bool:
        """Return whether the newest copy still waits in the queue for capacity, so that another copy would be in vain.

        False for the first few copies while the workers are full, since a worker that hangs may have taken the newest;
        true if a worker has returned the job.
        """
        if availability is Availability.FREE or not self._unclaimed or self.outgrown(extent):
            return False
        full = availability is Availability.FULL
        return not full or self._handed_back or self._futile >= self._timings.fast_republishes

    def published(self, copy_number: int, extent: int, now: float, *, confirmed: bool) -> None:
        """Record the outcome of publishing copy `copy_number`.

        If the broker `confirmed` it, it becomes the newest copy.
        """
        self._publishing = False
        if confirmed:
            self._futile = 1 if self.outgrown(extent) else self._futile + 1
            self.newest, self._extent, self._republished_at = copy_number, extent, now
            self._unclaimed, self._handed_back = True, False

    def queued(self, now: float) -> None:
        """Record that the broker confirmed the original message of the job, at monotonic time `now`."""
        self._queued_at = now

    def outgrown(self, extent: int) -> bool:
        """Return whether the answer has grown since the newest copy was published: `extent` exceeds the extent then."""
        return extent > self._extent

    def in_pickup(self, now: float) -> bool:
        """Return whether the newest copy is so recent that a worker may still take it and request to resume the job."""
        fast = self._futile < self._timings.fast_republishes
        return now - self._republished_at < (self._timings.pickup_timeout if fast else self._timings.give_up_after)

    def publish_overdue(self, broker: BrokerHealth, now: float, *, has_capacity: bool) -> list[Command]:
        """Return the command that publishes another copy of a job without any reply, if a reply is overdue, else `[]`.

        A copy is due once after each loss of the broker connection, since replies may be lost; and while a worker has
        free capacity, since the job may be at a worker that hangs.
        """
        back, last = broker.disturbed_at, max(self._queued_at, self._republished_at)
        if last <= back + self._timings.watch_interval:
            overdue = now - back >= self._timings.start_timeout
        else:
            timeout = self._timings.pickup_timeout if self._futile else self._timings.start_timeout
            overdue = has_capacity and self._futile < self._timings.fast_republishes and now - last >= timeout
        return (self.publish(extent=0) or []) if overdue else []
