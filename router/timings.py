"""Times (seconds) and retry limits that workers, gateways and assistants must agree on, such as heartbeat timeouts.

A gateway pings a silent worker only because the worker answers in time; a worker cancels an absent gateway's jobs only
after the gateway had time to return. Such values stand here together, and `tests/router/test_timings.py` checks the
inequalities between them. A process gets one instance at start-up; tests pass another one. A time that concerns one
module only is a constant of that module.
"""

from __future__ import annotations

from dataclasses import dataclass

from router.topology import JOB_DELIVERY_LIMIT


@dataclass(frozen=True)
class Timings:
    """Times in seconds, and retry limits."""

    # Broker connections. After a lost one all processes have to come back, and silence proves nothing.
    amqp_heartbeat_interval: int = 10
    """Seconds between AMQP heartbeats; the broker closes a silent connection after about three of them."""
    max_reconnect_delay: float = 5.0
    """Longest delay in seconds before a lost connection is opened again."""
    reconnect_window: float = 15.0
    """Seconds after a lost broker connection in which a missing reply or a returned window is blamed on the broker."""

    # Workers and gateways, as seen by their heartbeats and load reports.
    worker_heartbeat_interval: float = 1.0
    """Seconds between two heartbeats of a worker, and between two checks of its jobs' deadlines."""
    worker_alive_timeout: float = 3.0
    """Seconds without a heartbeat after which a worker counts as dead."""
    load_report_interval: float = 1.0
    """Seconds between two load reports of a gateway to the other gateways."""
    load_report_timeout: float = 3.0
    """Seconds after which a gateway's load report is no longer counted."""

    # Gateway: recovery of running jobs (`router/producer/recovery.py`).
    watch_interval: float = 0.5
    """Seconds between two checks of all running jobs for silence."""
    ping_after: float = 5.0
    """Seconds of an attempt's silence after which its worker is pinged."""
    give_up_after: float = 10.0
    """Seconds of a pinged attempt's silence after which the job is published again."""
    start_timeout: float = 5.0
    """Seconds in which a job has to start after the broker's return, or while a worker has free capacity."""
    pickup_timeout: float = 0.4
    """Seconds in which a worker has to send a resume request for a republished job."""
    fast_republishes: int = 6
    """Number of times that a job is republished after `pickup_timeout`; later ones wait for `give_up_after`."""
    republish_limit: int = 12
    """Number of times that a job is republished without progress before it fails."""
    republish_after_deliveries: int = JOB_DELIVERY_LIMIT // 2
    """Deliveries of one message after which a fresh copy replaces it, long before the broker's delivery limit."""
    solo_after_crashes: int = 2
    """Consecutive crashes of workers or engines, without progress of the job, after which it runs alone."""
    poison_after_crashes: int = 3
    """Consecutive crashes of workers or engines, without progress of the job, that make it a poison message."""
    resume_timeout: float = 0.25
    """Seconds in which a worker has to report that it still runs a job that another worker requests to resume."""
    reconnect_resume_timeout: float = 3.0
    """`resume_timeout` during the `reconnect_window`."""
    gap_retry_interval: float = 0.25
    """Seconds between two requests to send missing replies again."""
    gap_retries: int = 80
    """Requests for the same missing replies before the request fails; those while the broker is away do not count."""
    stop_interval: float = 1.0
    """Seconds between two stop messages to an attempt whose replies are not accepted: the first may have been lost."""

    # Worker: redelivered jobs, absent gateways, drain (`router/consumer/`), hung engines (`inference_worker/worker/`).
    resume_request_interval: float = 2.0
    """Seconds between two resume requests for one attempt, until the gateway decides."""
    gateway_grace: float = 1.0
    """Seconds from the first returned window of a gateway to its probe; a dead gateway's jobs are cancelled then."""
    gateway_grace_after_reconnect: float = 10.0
    """`gateway_grace` during the `reconnect_window`."""
    gateway_probe_timeout: float = 1.0
    """Seconds in which the broker returns the probe of a gateway that has no inbox."""
    drain_grace: float = 120.0
    """Default of the settings for the seconds that running requests may take when a process stops."""
    drain_settle_timeout: float = 5.0
    """Seconds that a drained worker waits for its last usage records' confirms; unsettled jobs are redelivered."""
    stop_margin: float = 15.0
    """Seconds from the end of `drain_grace` to SIGKILL."""
    engine_check_interval: float = 1.0
    """Seconds between two checks whether a busy engine hangs."""
    engine_stall_timeout: float = 30.0
    """Default of the setting for the seconds without a finished step after which a busy engine is restarted."""

    # Gateway: a request without replies (`gateway/jobs/generation.py`).
    silence_check_interval: float = 1.0
    """Seconds between two checks whether any worker can still answer a silent request."""
    unreachable_after: float = 60.0
    """Seconds that a request waits for a broker that is away."""

    # Billing: which process settles a job, and when the audit reports it (docs/design/reliability-contract.md#I5).
    reserve_timeout: float = 2.5
    """Seconds that a request waits for its hold."""
    gateway_heartbeat_interval: float = 5.0
    """Seconds between two heartbeats of a gateway in the store."""
    gateway_heartbeat_timeout: float = 30.0
    """Seconds without a heartbeat after which the sweeper settles a gateway's jobs and releases its credit leases."""
    credit_lease_freshness: float = 2.0
    """Age in seconds of an account's last confirmation up to which a gateway draws from its credit lease."""
    sweep_interval: float = 5.0
    """Seconds between two sweeps."""
    full_sweep_interval: float = 30.0
    """Seconds between two sweeps of all held jobs and holds, and the age at which a hold without a job is released."""
    sweep_stable_period: float = 30.0
    """Seconds for which receipts must have been consumed without a backlog before the sweeper acts."""
    max_sweep_gap: float = 15.0
    """Seconds without a sweep, or with a backlog of receipts, after which the sweeper's observations start anew."""
    receipt_grace: float = 60.0
    """Seconds after a job's deadline in which its receipt may still arrive; then the sweeper settles it."""
    settlement_timeout: float = 10.0
    """Seconds after which an unfinished settlement counts as abandoned by its settler."""
    audit_recheck_interval: float = 3.0
    """Seconds between two checks of a difference that the audit found: longer than a settlement takes."""
    missing_hold_grace: float = 60.0
    """Age in seconds of a running job from which the audit reports that it has no hold."""
    settlement_overdue_after: float = 15 * 60.0
    """Seconds after a job's deadline, or a credit lease's last use, from which the audit reports its hold."""
    credit_apply_interval: float = 60.0
    """Seconds between two searches for credit whose writer died before it was applied to the account."""
    credit_overdue_after: float = 5 * 60.0
    """Age in seconds from which the audit reports credit that was not applied to its account."""

    # Idempotency keys, whose leases all gateways see.
    idempotency_lease: float = 30.0
    """Seconds without renewal after which the gateway that runs a request counts as dead."""
    idempotency_renewal_interval: float = 10.0
    """Seconds between two renewals of an idempotency key's lease."""

    # The chat's answers and imports. The gateway process that works at one holds a lease that all of them see.
    answer_lease: float = 10.0
    """Seconds without renewal after which an answer counts as abandoned, and another gateway process continues it."""
    answer_progress_interval: float = 1.0
    """Seconds between two writes of an answer's progress, which renew its lease."""
    answer_scan_interval: float = 3.0
    """Seconds between two searches for abandoned answers."""
    import_lease: float = 60.0
    """Seconds without renewal after which an import counts as abandoned, and is cleaned up."""
    import_store_timeout: float = 30.0
    """Seconds for which a write of an import is retried while the store does not answer."""
    import_scan_interval: float = 20.0
    """Seconds between two searches for abandoned imports."""


DEFAULT_TIMINGS = Timings()
