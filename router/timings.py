"""Times and retry limits that processes have to agree on.

A gateway pings a silent worker only because the worker answers in time; a worker stops for an absent gateway only after
the gateway had time to return. Such values stand here together, and `tests/router/test_timings.py` checks the
inequalities between them. A process gets one instance at start-up; tests pass another one.
"""

from __future__ import annotations

from dataclasses import dataclass

from router.topology import JOB_DELIVERY_LIMIT


@dataclass(frozen=True)
class Timings:
    """Seconds, unless a field says otherwise."""

    # Reconnection. After a lost broker connection all processes have to come back, and silence proves nothing.
    reconnect_window: float = 15.0
    """How long after a lost broker connection a missing reply is blamed on the broker."""

    # Gateway: recovery of running jobs (`gateway/jobs/recovery.py`).
    watch_interval: float = 0.5
    """Between two checks of all running jobs for silence."""
    ping_after: float = 5.0
    """Silence of an attempt after which its worker is pinged."""
    give_up_after: float = 10.0
    """Silence of a pinged attempt after which the job is published again."""
    start_timeout: float = 5.0
    """Within which a job starts after the broker's return, or while a worker has free capacity."""
    pickup_timeout: float = 0.4
    """Within which a worker requests to resume a republished job."""
    fast_republishes: int = 6
    """How many times a job is republished after `pickup_timeout`; later ones wait for `give_up_after`."""
    republish_limit: int = 12
    """How many times a job is republished without progress before it fails."""
    republish_after_deliveries: int = JOB_DELIVERY_LIMIT // 2
    """Deliveries of one message after which a fresh copy replaces it, long before the broker's delivery limit."""
    solo_after_crashes: int = 2
    """Attempts in a row that crashed without progress, after which the job runs alone in a worker."""
    poison_after_crashes: int = 3
    """The same, after which the job is a poison message and does not run any more."""
    resume_timeout: float = 0.25
    """Within which a worker reports that it still runs a job that another worker requests to resume."""
    reconnect_resume_timeout: float = 3.0
    """The same within `reconnect_window`."""
    gap_retry_interval: float = 0.25
    """Between two requests to send missing replies again."""
    gap_retries: int = 80
    """Requests for the same missing replies before the request fails; those while the broker is away do not count."""
    stop_interval: float = 1.0
    """Between two stop messages to an attempt that is no longer authoritative: the first may have been lost."""

    # Gateway: a request without replies (`gateway/jobs/generation.py`).
    silence_check_interval: float = 1.0
    """Between two checks whether any worker can still answer a silent request."""
    unreachable_after: float = 60.0
    """How long a request waits for a broker that is away."""

    # Billing: whose job it is to settle.
    gateway_heartbeat_interval: float = 5.0
    """Between two heartbeats of a gateway in the store; without them the sweeper settles its jobs."""
