"""The reply inbox: replies reach open jobs, and workers of other jobs are stopped."""

from __future__ import annotations

import gc
import weakref
from typing import Any

import pytest
from prometheus_client import CollectorRegistry

from router.messages import Cancel, Delta, Reply, Resume, ResumeDecision, ResumeRequest, Started, Window
from router.model_registry import Availability
from router.producer.errors import RepliesLost, SlowClient, UpstreamUnreachable
from router.producer.metrics import ProducerMetrics
from router.producer.reply_inbox import ReplyInbox
from router.timings import Timings
from router.transport.base import ConnectionState
from tests.contract.examples import JOB, msgspec_replace

JOBS = [msgspec_replace(JOB, id=f"job-{number}") for number in range(2)]


class Bus:
    """Records control messages."""

    state = ConnectionState.UP
    lost_at = float("-inf")

    def __init__(self) -> None:
        self.sent: list[Any] = []

    def on_control_unroutable(self, _callback: object) -> None:
        pass

    def send_control(self, _target: str, control: Any, *, mandatory: bool = False) -> None:
        self.sent.append(control)


class Windows:
    """A feed of windows that ends."""

    def __init__(self, *replies: Reply) -> None:
        self._windows = [Window(worker_id="w-1", replies=[reply]) for reply in replies]

    async def __aiter__(self) -> Any:
        for window in self._windows:
            yield window


@pytest.fixture
def bus() -> Bus:
    return Bus()


@pytest.fixture
def inbox(bus: Bus) -> ReplyInbox:
    metrics = ProducerMetrics(CollectorRegistry())
    return ReplyInbox(
        bus,  # type: ignore[arg-type]
        "gateway-1",
        metrics,
        max_unread_bytes=1_000,
        availability=lambda _name, *, begun: Availability.FREE,
        timings=Timings(),
    )


def started(job: str) -> Started:
    return Started(job_id=job, attempt_id=f"attempt-of-{job}", worker_id="w-1", prompt_tokens=1)


def delta(job: str, text: str = "a") -> Delta:
    return Delta(job_id=job, attempt_id=f"attempt-of-{job}", start=0, token_ids=[1], text=text)


async def receive(inbox: ReplyInbox, *replies: Reply) -> None:
    await inbox.run(Windows(*replies))  # type: ignore[arg-type]


async def test_the_jobs_of_a_request_share_their_unread_replies(inbox: ReplyInbox) -> None:
    opened = inbox.open(JOBS)
    assert len(inbox) == 2
    await receive(inbox, started("job-1"), started("job-0"), delta("job-1"))
    assert [(each.job, type(each.reply)) for each in opened[0].unread.take_all()] == [
        (1, Started),
        (0, Started),
        (1, Delta),
    ]
    inbox.close(opened, cancel=False)
    inbox.close(opened, cancel=False)
    assert len(inbox) == 0


async def test_workers_of_unknown_jobs_are_stopped(inbox: ReplyInbox, bus: Bus) -> None:
    request = ResumeRequest(job_id="gone", attempt_id="a", delivery_count=1)
    await receive(inbox, delta("unknown"), request)
    assert bus.sent == [
        Cancel(job="unknown", reply_to=inbox.own_id),
        Resume(job="gone", attempt="a", decision=ResumeDecision.GONE),
    ]


async def test_closing_cancels_jobs_that_have_not_ended(inbox: ReplyInbox, bus: Bus) -> None:
    inbox.close(inbox.open(JOBS), cancel=True)
    assert bus.sent == [Cancel(job=job.id, reply_to=job.reply_to) for job in JOBS]


async def test_shutdown_fails_all_open_requests(inbox: ReplyInbox) -> None:
    first, second = inbox.open(JOBS[:1]), inbox.open(JOBS[1:])
    inbox.fail_all(UpstreamUnreachable())
    for job in (*first, *second):
        with pytest.raises(UpstreamUnreachable):
            job.unread.peek()


async def test_a_failed_request_accepts_no_more_replies(inbox: ReplyInbox) -> None:
    opened = inbox.open(JOBS)
    await receive(inbox, started("job-0"), delta("job-0", "x" * 2_000), started("job-1"))
    with pytest.raises(SlowClient):
        opened[0].unread.peek()
    assert not opened[1].recovery.attempt_id


async def test_a_reply_that_cannot_be_taken_fails_its_request_and_no_other(inbox: ReplyInbox) -> None:
    first, second = inbox.open(JOBS[:1]), inbox.open(JOBS[1:])
    no_token = Delta(job_id="job-0", attempt_id="attempt-of-job-0", start=0, token_ids=[2**40])
    await receive(inbox, started("job-0"), started("job-1"), no_token, delta("job-1"))
    first[0].unread.take_all()
    with pytest.raises(RepliesLost):
        first[0].unread.peek()
    assert len(second[0].unread.take_all()) == 2


async def test_a_reply_to_no_open_job_that_cannot_be_counted_fails_no_request(inbox: ReplyInbox) -> None:
    opened = inbox.open(JOBS[:1])
    endless = Delta(job_id="unknown", attempt_id="a", start=0, token_ids=[], untokenised_positions=10**400)
    await receive(inbox, endless, started("job-0"))
    assert len(opened[0].unread.take_all()) == 1


def test_a_closed_request_is_freed_without_a_garbage_collection(inbox: ReplyInbox) -> None:
    opened = inbox.open(JOBS)
    unread = weakref.ref(opened[0].unread)
    inbox.close(opened, cancel=False)
    gc.disable()
    try:
        del opened
        assert unread() is None
    finally:
        gc.enable()
