"""Decides when a worker restarts a faulty engine: after 3 failed steps in a minute, not in its first 10 minutes.

Each fault failed only its own request, but may have left damage behind (a corrupt allocator or KV cache). An engine is
restarted only after a minimum uptime, so that a client who provokes faults can't keep the model loading
(docs/design/reliability-contract.md#F5).
"""

from __future__ import annotations

import time
from collections import deque

MAX_FAULTS = 3
"""Faults within `FAULT_WINDOW` that make a restart due."""
FAULT_WINDOW = 60.0
"""Seconds."""
MIN_UPTIME = 600.0
"""Seconds before which an engine is not restarted for its faults."""


class RestartPolicy:
    """Policy that restarts an engine after repeated faults, from the faults and uptime of the current engine."""

    def __init__(self) -> None:
        self._faults: deque[float] = deque(maxlen=MAX_FAULTS)
        self._started = time.monotonic()

    def reset(self) -> None:
        """Forget all recorded faults, because a new engine was started, and restart the uptime."""
        self._faults.clear()
        self._started = time.monotonic()

    def record_fault(self) -> None:
        """Record that a step of the current engine failed."""
        self._faults.append(time.monotonic())

    @property
    def restart_due(self) -> bool:
        """Whether the engine should be restarted: its last `MAX_FAULTS` faults were within `FAULT_WINDOW`.

        Never before the engine ran for `MIN_UPTIME`.
        """
        often = len(self._faults) == MAX_FAULTS and self._faults[-1] - self._faults[0] <= FAULT_WINDOW
        return often and time.monotonic() - self._started >= MIN_UPTIME
