"""The typed bus over both transports."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable

import pytest

from router import control_targets, topology
from router.bus import MAX_JOB_BYTES, Bus
from router.control_signing import ControlSigner
from router.diagnosis import REASON_HEADER
from router.errors import MessageTooLarge, QueueFull, Unroutable
from router.messages import Cancel, Delta, Drain, ServiceClass, Window, WorkerState
from router.transport.base import Outgoing, Transport
from tests.contract.conftest import MakeTransport
from tests.contract.examples import JOB, STATUS, USAGE_RECORD, msgspec_replace
from tests.contract.test_transport import nothing_more, take
from tests.fakes.accounts import FakeClock

MakeBus = Callable[[str], Awaitable[tuple[Bus, Transport]]]


@pytest.fixture
def make_bus(make_transport: MakeTransport) -> MakeBus:
    async def make(name: str) -> tuple[Bus, Transport]:
        transport = await make_transport(name)
        await transport.declare(topology.platform())  # what `Bus.start` does after connecting
        return Bus(transport), transport

    return make


def job(**changes: object):  # type: ignore[no-untyped-def]
    return msgspec_replace(JOB, **{"deadline": time.time() + 60, **changes})


async def test_jobs_go_to_their_model_and_class(make_bus: MakeBus) -> None:
    gateway, _ = await make_bus("gateway-1")
    worker, _ = await make_bus("worker-1")
    await worker.declare_model(JOB.model)
    default = await worker.jobs(JOB.model, ServiceClass.DEFAULT, prefetch=2)
    flex = await worker.jobs(JOB.model, ServiceClass.FLEX, prefetch=2)
    sent = [job(), job(id="chatcmpl-2", service_class=ServiceClass.FLEX)]
    for each in sent:
        await gateway.publish_job(each, {"traceparent": "00-ab"})
    [first], [second] = await take(default, 1), await take(flex, 1)
    assert [first.message, second.message] == sent
    assert (first.delivery.message_id, first.delivery.headers["traceparent"]) == ("chatcmpl-1", "00-ab")
    first.delivery.ack()
    second.delivery.ack()
    with pytest.raises(Unroutable):
        await gateway.publish_job(job(model="unheard-of"), {})


async def test_a_job_that_is_too_large_is_not_sent_and_does_not_affect_others(make_bus: MakeBus) -> None:
    bus, _ = await make_bus("gateway-1")
    await bus.declare_model(JOB.model)
    other = asyncio.create_task(bus.publish_job(job(), {}))
    with pytest.raises(MessageTooLarge):
        await bus.publish_job(job(tenant="x" * MAX_JOB_BYTES), {})
    await other
    [queued] = await take(await bus.jobs(JOB.model, ServiceClass.DEFAULT, prefetch=2), 1)
    queued.delivery.ack()


async def test_a_job_of_almost_the_limit_is_queued(make_bus: MakeBus) -> None:
    bus, _ = await make_bus("gateway-1")
    await bus.declare_model(JOB.model)
    await bus.publish_job(job(tenant="x" * (MAX_JOB_BYTES - 10_000)), {})
    [queued] = await take(await bus.jobs(JOB.model, ServiceClass.DEFAULT, prefetch=1), 1)
    queued.delivery.ack()


async def test_a_job_past_its_deadline_is_a_dead_letter(make_bus: MakeBus) -> None:
    bus, _ = await make_bus("worker-1")
    await bus.declare_model(JOB.model)
    await bus.publish_job(job(deadline=time.time() - 5), {})
    [dead] = await take(await bus.dead_jobs(prefetch=1), 1)
    assert (dead.message_id, dead.death_reason) == ("chatcmpl-1", "expired")
    dead.ack()


async def test_an_undecodable_job_is_a_dead_letter_with_its_reason(make_bus: MakeBus) -> None:
    bus, transport = await make_bus("worker-1")
    await bus.declare_model(JOB.model)
    jobs = await bus.jobs(JOB.model, ServiceClass.DEFAULT, prefetch=1)
    key = topology.job_routing_key(JOB.model, ServiceClass.DEFAULT)
    await transport.publish(Outgoing(topology.JOBS_EXCHANGE, key, b'{"type":"job"}', {"a": 1}, message_id="bad"))
    await bus.publish_job(job(), {})
    [good] = await take(jobs, 1)
    assert good.message.id == "chatcmpl-1"
    good.delivery.ack()
    [dead] = await take(await bus.dead_jobs(prefetch=1), 1)
    assert (dead.body, dead.message_id, dead.headers["a"]) == (b'{"type":"job"}', "bad", 1)
    assert "missing required field `id`" in str(dead.headers[REASON_HEADER])
    assert dead.routing_key == topology.dead_job_routing_key(JOB.model)
    dead.ack()
    assert await nothing_more(jobs)


async def test_an_undecodable_job_is_rejected_if_it_can_not_be_moved(
    make_bus: MakeBus, monkeypatch: pytest.MonkeyPatch
) -> None:
    bus, transport = await make_bus("worker-1")
    await bus.declare_model(JOB.model)
    jobs = await bus.jobs(JOB.model, ServiceClass.DEFAULT, prefetch=1)
    await transport.publish(
        Outgoing(topology.JOBS_EXCHANGE, topology.job_routing_key(JOB.model, ServiceClass.DEFAULT), b"?")
    )

    async def refuse(_message: Outgoing) -> None:
        raise QueueFull("no")

    monkeypatch.setattr(transport, "publish", refuse)
    reading = asyncio.create_task(take(jobs, 1))
    [dead] = await take(await bus.dead_jobs(prefetch=1), 1)
    assert (dead.body, dead.death_reason) == (b"?", "rejected")
    dead.ack()
    reading.cancel()


async def test_windows_reach_their_gateway_and_returned_ones_are_reported(make_bus: MakeBus) -> None:
    gateway, raw = await make_bus("gateway-1")
    worker, _ = await make_bus("worker-1")
    lost: asyncio.Queue[str] = asyncio.Queue()
    worker.on_gateway_unreachable(lost.put_nowait)
    replies = await gateway.replies("gateway-1")
    windows = [
        Window(worker_id="worker-1", replies=[Delta(job_id="j", attempt_id="a", start=i, token_ids=[i], text="x")])
        for i in range(100)
    ]
    raw.publish_unconfirmed(
        Outgoing(topology.REPLY_EXCHANGE, "gateway-1", b"not a window")
    )  # dropped, and nothing else with it
    for window in windows:
        worker.send_window("gateway-1", window)
    assert await take(replies, 100) == windows
    await gateway.close()
    worker.send_window("gateway-1", windows[0])
    async with asyncio.timeout(10):
        assert await lost.get() == "gateway-1"


async def test_usage_is_settled_once_and_an_undecodable_record_is_parked(make_bus: MakeBus) -> None:
    bus, transport = await make_bus("billing-1")
    records = await bus.settlements(prefetch=2)
    await transport.publish(Outgoing(topology.SETTLE_EXCHANGE, topology.SETTLE_ROUTING_KEY, b"{}", message_id="odd"))
    await bus.publish_settlement(USAGE_RECORD)
    [record] = await take(records, 1)
    assert (record.message, record.delivery.message_id) == (USAGE_RECORD, USAGE_RECORD.job)
    await bus.park(record.delivery, "tenant unknown")
    parked = await take(await transport.consume(topology.PARKED_QUEUE, prefetch=2), 2)
    reasons = {delivery.message_id: str(delivery.headers[REASON_HEADER]) for delivery in parked}
    assert reasons[USAGE_RECORD.job] == "tenant unknown"
    assert "missing required field" in reasons["odd"]
    for delivery in parked:
        delivery.ack()
    assert await nothing_more(records)


async def test_control_messages_reach_their_targets(make_bus: MakeBus) -> None:
    gateway, _ = await make_bus("gateway-1")
    feeds = []
    for worker_id in ("w-1", "w-2"):
        worker, _ = await make_bus(worker_id)
        feeds.append(
            await worker.controls([control_targets.worker(worker_id), control_targets.model("m"), control_targets.ALL])
        )
    gateway.send_control(control_targets.worker("w-1"), Cancel(job="one"))
    gateway.send_control(control_targets.model("m"), Cancel(job="model"))
    gateway.send_control(control_targets.model("other"), Cancel(job="nobody"))
    gateway.send_control(control_targets.ALL, Drain())
    assert await take(feeds[0], 3) == [Cancel(job="one"), Cancel(job="model"), Drain()]
    assert await take(feeds[1], 2) == [Cancel(job="model"), Drain()]
    await feeds[0].close()
    assert [message async for message in feeds[0]] == []


async def test_every_gateway_receives_every_heartbeat(make_bus: MakeBus) -> None:
    worker, _ = await make_bus("worker-1")
    feeds = [await (await make_bus(name))[0].statuses() for name in ("gateway-1", "gateway-2")]
    beats = [STATUS, msgspec_replace(STATUS, state=WorkerState.DRAINING)]
    for beat in beats:
        worker.send_status(beat)
    for feed in feeds:
        assert await take(feed, 2) == beats


async def test_unsigned_control_messages_are_rejected_and_reported(make_bus: MakeBus) -> None:
    clock = FakeClock(time.time())
    signer, late = ControlSigner("s" * 32), ControlSigner("s" * 32, FakeClock(clock.now - 1000))
    (_, ours), (_, theirs) = await make_bus("gateway-1"), await make_bus("intruder")
    worker = Bus(theirs, signer)
    refused: list[str] = []
    worker.on_control_rejected(refused.append)
    feed = await worker.controls([control_targets.ALL])
    for forger in (Bus(ours), Bus(ours, ControlSigner("t" * 32)), Bus(ours, late)):
        forger.send_control(control_targets.ALL, Drain())
    Bus(ours, signer).send_control(control_targets.ALL, Cancel(job="one"))
    assert await take(feed, 1) == [Cancel(job="one")]
    assert refused == ["unsigned", "forged", "old"]
