"""Lets the engines of one machine give way to each other: a step of `flex` waits while another computes for people.

Their processes share a file lock on this module. An engine on a CPU holds it while it has requests of other classes
than `flex`; a killed process gives it up. Engines in containers of their own do not see each other (ADR 0086).
"""

from __future__ import annotations

import fcntl
import math
import os
import time
import weakref
from contextlib import suppress
from pathlib import Path

MAX_WAIT = 0.25
"""Seconds that a step of `flex` waits for other engines at most, so that it never starves."""
PEOPLE_SECONDS = 10.0
"""Seconds after the last request of another class for which steps of `flex` leave the cores to other processes."""
_POLL = 0.005


class SharedCores:
    """The processor cores of this machine, as one engine shares them with other processes. Not thread-safe."""

    def __init__(self, lock: Path = Path(__file__)) -> None:
        """`lock`: the file whose lock the engines of the machine share."""
        self._file = os.open(lock, os.O_RDONLY | os.O_CLOEXEC)
        weakref.finalize(self, os.close, self._file)
        self._is_held = False
        self._held_at = -math.inf
        """Time at which this engine or another was last seen to hold the cores."""

    @property
    def are_people_served(self) -> bool:
        """Whether an engine was seen to compute for people in the last `PEOPLE_SECONDS`."""
        return time.monotonic() - self._held_at < PEOPLE_SECONDS

    def hold(self, is_needed: bool) -> None:
        """Have the steps of `flex` of other engines wait from now on, or end this.

        Never waits: while another engine looks at the lock, or where the file system has none, nothing is held.
        """
        if is_needed:
            self._held_at = time.monotonic()
        if is_needed != self._is_held:
            with suppress(OSError):
                fcntl.flock(self._file, fcntl.LOCK_SH | fcntl.LOCK_NB if is_needed else fcntl.LOCK_UN)
                self._is_held = is_needed

    def give_way(self, until: float) -> None:
        """Wait while another engine holds the cores, at most until the time `until` of `time.monotonic`.

        Not for an engine that holds them itself.
        """
        while self._is_held_by_another():
            self._held_at = time.monotonic()
            if self._held_at >= until:
                break
            time.sleep(_POLL)

    def _is_held_by_another(self) -> bool:
        try:
            fcntl.flock(self._file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            return True
        except OSError:  # NFS has no exclusive locks on files that are open for reading
            return False
        fcntl.flock(self._file, fcntl.LOCK_UN)
        return False
