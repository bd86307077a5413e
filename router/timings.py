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

    # Broker connections. After a lost one all processes have to come back, and silence proves nothing.
    amqp_heartbeat_interval: int = 10
    """AMQP heartbeat; a peer that missed two of them is disconnected."""
    max_reconnect_delay: float = 5.0
    """Longest delay between two attempts to connect again."""
    reconnect_window: float = 15.0
    """How long after a lost broker connection a missing reply or a returned window is blamed on the broker."""

    # Workers and gateways, as seen by their heartbeats and load reports.
    worker_heartbeat_interval: float = 1.0
    """Between two heartbeats of a worker, and between two checks of its jobs' deadlines."""
    worker_alive_timeout: float = 3.0
    """Without a heartbeat for this long a worker counts as dead."""
    load_report_interval: float = 1.0
    """Between two load reports of a gateway to the other gateways."""
    load_report_timeout: float = 3.0
    """Without a load report for this long a gateway's queued jobs are no longer counted."""

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
    """Crashes in a row of a worker or its engine without progress, after which the job runs alone in a worker."""
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

    # Worker: redelivered jobs, absent gateways, drain (`router/consumer/`), hung engines (`inference_worker/worker/`).
    resume_request_interval: float = 2.0
    """Between two resume requests for one attempt, until the gateway decides."""
    gateway_grace: float = 1.0
    """From the first window that the broker returns to the probe of the gateway: jobs of a dead one are cancelled."""
    gateway_grace_after_reconnect: float = 10.0
    """The same within `reconnect_window`."""
    gateway_probe_timeout: float = 1.0
    """Within which the broker returns a probe to a gateway that has no inbox."""
    drain_grace: float = 120.0
    """Default of the settings for how long running requests may take when a process stops."""
    drain_settle_timeout: float = 5.0
    """Within which a draining worker's last usage records are confirmed."""
    stop_margin: float = 15.0
    """From the end of `drain_grace` to SIGKILL."""
    engine_check_interval: float = 1.0
    """Between two checks whether a busy engine hangs."""
    engine_stall_timeout: float = 30.0
    """Default of the setting for how long a busy engine may finish no step before it is restarted."""

    # Gateway: a request without replies (`gateway/jobs/generation.py`).
    silence_check_interval: float = 1.0
    """Between two checks whether any worker can still answer a silent request."""
    unreachable_after: float = 60.0
    """How long a request waits for a broker that is away."""

    # Billing: whose job it is to settle.
    gateway_heartbeat_interval: float = 5.0
    """Between two heartbeats of a gateway in the store."""
    gateway_heartbeat_timeout: float = 30.0
    """Without a heartbeat for this long the sweeper settles a gateway's jobs and releases its credit leases."""
    sweep_interval: float = 5.0
    """Between two sweeps."""
    full_sweep_interval: float = 30.0
    """Between two sweeps of all held jobs and all accounts with holds, and the age of a hold without a job."""
    sweep_stable_period: float = 30.0
    """How long receipts must have been consumed without a backlog before the sweeper acts."""
    max_sweep_gap: float = 15.0
    """Without a sweep, or with a backlog of receipts, for this long, all observations of the sweeper start anew."""
    receipt_grace: float = 60.0
    """From a job's deadline to its settlement without a receipt."""
    settlement_timeout: float = 10.0
    """Age of an unfinished settlement that the sweeper finishes."""
    reserve_timeout: float = 2.5
    """How long a request waits for its hold."""
    credit_lease_freshness: float = 2.0
    """Age of an account's last confirmation up to which a gateway draws from its credit lease."""
    missing_hold_grace: float = 60.0
    """Age of a job from which the audit reports a missing hold."""
    settlement_overdue_after: float = 15 * 60.0
    """From a job's deadline, or the last use of a credit lease, to the audit's report that it is still held."""
    credit_apply_interval: float = 60.0
    """Between two searches for credit that was not applied to its account."""
    credit_overdue_after: float = 5 * 60.0
    """Age of such credit that the audit reports."""

    # Idempotency keys, whose leases all gateways see.
    idempotency_lease: float = 30.0
    """Without renewal for this long the gateway that ran a request is considered dead."""
    idempotency_renewal_interval: float = 10.0
    """Between two renewals of such a lease."""

    # The chat's answers and imports. The gateway process that works at one holds a lease that all of them see.
    answer_lease: float = 10.0
    """Without renewal for this long an answer counts as abandoned: another gateway process continues it."""
    answer_progress_interval: float = 1.0
    """Between two writes of an answer's progress, which renew the lease while text arrives."""
    answer_scan_interval: float = 3.0
    """Between two searches for abandoned answers."""
    import_lease: float = 60.0
    """Without renewal for this long an import counts as abandoned: it is cleaned up."""
    import_store_timeout: float = 30.0
    """How long a write of an import is retried while the store does not answer."""
    import_scan_interval: float = 20.0
    """Between two searches for abandoned imports."""


DEFAULT_TIMINGS = Timings()
