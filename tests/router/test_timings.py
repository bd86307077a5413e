"""Inequalities between the times of `Timings`: each test names the reason for which one has to hold."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from auth_billing.money.job_write_buffer import MAX_LAG
from auth_billing.rate_limits.lease import SLOT_LEASE, SLOT_RENEWAL_INTERVAL
from auth_billing.store.connection import OPERATION_MS
from chat_ui.generations.answer_writer import IDLE_INTERVALS
from gateway.answers import idempotency
from gateway.jobs import gateway_billing
from gateway.settings import GatewaySettings
from inference_worker.settings import WorkerSettings
from inference_worker.worker import engine_process, job_handler
from proxy.settings import ProxySettings
from router.consumer.attempts import REMEMBERED_PERIOD
from router.consumer.gateway_clocks import CLOCK_TOLERANCE
from router.control_signing import MAX_MESSAGE_AGE
from router.model_registry import KNOWN_PERIOD, RECENTLY_ALIVE_PERIOD
from router.timings import Timings
from router.topology import CONTROL_QUEUE_ARGUMENTS, JOB_DELIVERY_LIMIT

TIMINGS = Timings()
GATEWAY = GatewaySettings()
ROOT = Path(__file__).resolve().parents[2]
JOBS_CLOSED_AFTER = 30.0
"""Seconds after a deadline in which a gateway closes the job (docs/design/reliability-contract.md#I1)."""


# Connections


def test_two_attempts_to_reconnect_fit_into_the_reconnect_window() -> None:
    assert 2 * TIMINGS.max_reconnect_delay < TIMINGS.reconnect_window


def test_a_half_open_connection_is_detected_and_replaced_before_requests_fail() -> None:
    assert 3 * TIMINGS.amqp_heartbeat_interval + TIMINGS.max_reconnect_delay < TIMINGS.unreachable_after


def test_a_gateway_can_reconnect_before_workers_probe_it() -> None:
    assert TIMINGS.max_reconnect_delay < TIMINGS.gateway_grace_after_reconnect


def test_a_returned_probe_is_judged_within_the_reconnect_window() -> None:
    assert TIMINGS.gateway_grace_after_reconnect + TIMINGS.gateway_probe_timeout < TIMINGS.reconnect_window


def test_workers_cancel_a_dead_gateways_jobs_before_a_live_gateway_would_fail_its_requests() -> None:
    assert TIMINGS.gateway_grace_after_reconnect + TIMINGS.gateway_probe_timeout < TIMINGS.unreachable_after


def test_absent_processes_get_more_time_after_a_lost_broker_connection() -> None:
    assert TIMINGS.gateway_grace < TIMINGS.gateway_grace_after_reconnect
    assert TIMINGS.resume_timeout < TIMINGS.reconnect_resume_timeout < TIMINGS.reconnect_window


# Heartbeats and load reports


def test_one_late_heartbeat_does_not_make_a_worker_dead() -> None:
    assert TIMINGS.worker_alive_timeout >= 2.5 * TIMINGS.worker_heartbeat_interval


def test_one_late_load_report_does_not_remove_a_gateways_jobs_from_the_estimate() -> None:
    assert TIMINGS.load_report_timeout >= 2.5 * TIMINGS.load_report_interval


def test_a_starting_gateway_gets_a_heartbeat_of_each_worker_before_it_accepts_requests() -> None:
    assert TIMINGS.worker_heartbeat_interval < GATEWAY.registry_warmup


def test_a_model_counts_as_served_for_longer_than_a_request_waits_for_a_worker() -> None:
    assert TIMINGS.worker_alive_timeout < GATEWAY.no_worker_timeout < RECENTLY_ALIVE_PERIOD < KNOWN_PERIOD


def test_three_failed_heartbeats_of_a_gateway_do_not_settle_its_jobs() -> None:
    assert 3 * TIMINGS.gateway_heartbeat_interval <= TIMINGS.gateway_heartbeat_timeout


# Recovery of jobs


def test_a_silent_worker_is_pinged_and_can_answer_before_its_job_is_republished() -> None:
    assert TIMINGS.ping_after + 2 * TIMINGS.watch_interval < TIMINGS.give_up_after


def test_a_silent_job_is_checked_several_times_before_each_timeout() -> None:
    assert 2 * TIMINGS.watch_interval <= min(TIMINGS.ping_after, TIMINGS.start_timeout)


def test_a_dead_worker_has_no_capacity_any_more_when_a_job_that_did_not_start_is_judged() -> None:
    assert TIMINGS.worker_alive_timeout < TIMINGS.start_timeout


def test_a_gateway_decides_about_a_resume_request_before_it_is_repeated() -> None:
    assert TIMINGS.resume_timeout < TIMINGS.resume_request_interval


def test_a_republished_job_is_picked_up_several_times_before_it_is_given_up() -> None:
    assert TIMINGS.fast_republishes * TIMINGS.pickup_timeout < TIMINGS.give_up_after
    assert TIMINGS.fast_republishes < TIMINGS.republish_limit


def test_a_fresh_copy_replaces_a_message_before_the_broker_dead_letters_it() -> None:
    assert TIMINGS.republish_after_deliveries < JOB_DELIVERY_LIMIT


def test_a_job_runs_alone_before_it_is_a_poison_message() -> None:
    assert TIMINGS.solo_after_crashes < TIMINGS.poison_after_crashes


def test_a_poison_message_is_given_up_before_its_worker_or_its_message() -> None:
    assert TIMINGS.poison_after_crashes <= job_handler.MAX_CRASHES
    assert TIMINGS.poison_after_crashes < JOB_DELIVERY_LIMIT


def test_missing_replies_are_requested_until_another_worker_can_have_resumed_the_job() -> None:
    assert TIMINGS.gap_retries * TIMINGS.gap_retry_interval > TIMINGS.give_up_after


def test_a_cancelled_jobs_id_is_remembered_until_its_deadline() -> None:
    assert GATEWAY.max_request_seconds <= REMEMBERED_PERIOD


def test_a_control_message_expires_in_its_queue_before_its_signature_does() -> None:
    assert int(CONTROL_QUEUE_ARGUMENTS["x-message-ttl"]) / 1000 + CLOCK_TOLERANCE < MAX_MESSAGE_AGE


# Engines and shutdown


def test_one_late_check_does_not_make_an_engine_hang() -> None:
    assert TIMINGS.engine_stall_timeout >= 10 * TIMINGS.engine_check_interval


@pytest.mark.parametrize(
    ("settings", "name", "value"),
    [
        (WorkerSettings, "stall_seconds", TIMINGS.engine_stall_timeout),
        (WorkerSettings, "drain_grace", TIMINGS.drain_grace),
        (ProxySettings, "drain_grace", TIMINGS.drain_grace),
        (GatewaySettings, "shutdown_grace", TIMINGS.drain_grace),
    ],
)
def test_the_default_of_a_setting_is_the_time_that_other_processes_expect(
    settings: type[WorkerSettings | ProxySettings | GatewaySettings], name: str, value: float
) -> None:
    assert settings.model_fields[name].default == value


def test_a_drained_worker_settles_its_jobs_and_stops_its_engine_before_it_is_killed() -> None:
    assert TIMINGS.drain_settle_timeout + engine_process.STOP_TIMEOUT < TIMINGS.stop_margin


def test_a_stopped_gateway_publishes_its_receipts_and_releases_its_leases_before_it_is_killed() -> None:
    assert TIMINGS.stop_margin > idempotency.STOP_TIMEOUT + 2 * gateway_billing.FLUSH_TIMEOUT


@pytest.mark.parametrize("unit", ["headrace-gateway@.service", "headrace-worker@.service"])
def test_systemd_kills_a_process_later_than_the_launcher_would(unit: str) -> None:
    stop = re.search(r"^TimeoutStopSec=(\d+)$", (ROOT / "infra/systemd" / unit).read_text(), re.MULTILINE)
    assert stop is not None
    assert int(stop[1]) >= TIMINGS.drain_grace + TIMINGS.stop_margin


def test_compose_kills_a_process_later_than_the_launcher_would() -> None:
    stop = re.search(r"stop_grace_period: (\d+)s", (ROOT / "docker-compose.yml").read_text())
    assert stop is not None
    assert int(stop[1]) >= TIMINGS.drain_grace + TIMINGS.stop_margin


# Holds and settlements


def test_one_store_operation_can_time_out_within_a_hold() -> None:
    assert TIMINGS.reserve_timeout > OPERATION_MS / 1000


def test_one_failed_sweep_does_not_discard_all_observations() -> None:
    assert 2 * TIMINGS.sweep_interval < TIMINGS.max_sweep_gap


def test_a_gateway_is_not_silent_because_the_sweeper_did_not_look() -> None:
    assert TIMINGS.max_sweep_gap < TIMINGS.gateway_heartbeat_timeout


def test_gateways_can_send_heartbeats_after_an_outage_before_the_sweeper_acts() -> None:
    assert 3 * TIMINGS.gateway_heartbeat_interval <= TIMINGS.sweep_stable_period


def test_the_sweeper_waits_for_the_receipt_of_a_job_that_was_closed_after_its_deadline() -> None:
    assert TIMINGS.receipt_grace > JOBS_CLOSED_AFTER


def test_a_hold_whose_job_is_being_written_is_not_an_orphan() -> None:
    assert TIMINGS.reserve_timeout + MAX_LAG < TIMINGS.full_sweep_interval


def test_a_job_whose_hold_is_being_written_is_not_reported_by_the_audit() -> None:
    assert TIMINGS.reserve_timeout + MAX_LAG < TIMINGS.missing_hold_grace


def test_the_sweeper_settles_an_overdue_job_before_the_audit_reports_it() -> None:
    grace = max(TIMINGS.receipt_grace, TIMINGS.gateway_heartbeat_timeout)
    waits = TIMINGS.sweep_stable_period + TIMINGS.full_sweep_interval + TIMINGS.settlement_timeout
    assert grace + waits < TIMINGS.settlement_overdue_after


def test_an_abandoned_settlement_is_finished_before_the_audit_reports_it() -> None:
    assert TIMINGS.settlement_timeout + TIMINGS.sweep_interval < TIMINGS.settlement_overdue_after


def test_the_sweeper_releases_an_abandoned_lease_before_the_audit_reports_it() -> None:
    waits = TIMINGS.sweep_stable_period + TIMINGS.full_sweep_interval
    assert TIMINGS.gateway_heartbeat_timeout + waits < TIMINGS.settlement_overdue_after


def test_a_gateway_without_its_store_stops_using_its_credit_lease_before_the_sweeper_releases_it() -> None:
    assert TIMINGS.credit_lease_freshness + TIMINGS.gateway_heartbeat_interval < TIMINGS.gateway_heartbeat_timeout


def test_unapplied_credit_is_searched_several_times_before_the_audit_reports_it() -> None:
    assert 3 * TIMINGS.credit_apply_interval <= TIMINGS.credit_overdue_after


# Leases in the store


def test_two_failed_renewals_and_different_clocks_do_not_end_an_idempotency_lease() -> None:
    assert 2 * TIMINGS.idempotency_renewal_interval + CLOCK_TOLERANCE < TIMINGS.idempotency_lease


def test_two_failed_renewals_do_not_end_the_slots_of_a_rate_limit() -> None:
    assert 2 * SLOT_RENEWAL_INTERVAL < SLOT_LEASE


def test_two_failed_renewals_do_not_end_the_lease_of_an_answer_without_new_text() -> None:
    assert 2 * IDLE_INTERVALS * TIMINGS.answer_progress_interval < TIMINGS.answer_lease


def test_an_import_keeps_its_lease_while_it_waits_for_the_store() -> None:
    assert TIMINGS.import_store_timeout < TIMINGS.import_lease
