"""Each process can work with its own broker user, and cannot do another process's work."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Awaitable, Callable

import pytest

from router import control_targets, topology
from router.bus import Bus
from router.diagnosis import Diagnosis
from router.errors import BrokerRefused
from router.messages import Cancel, FailureCode, ServiceClass, Window
from router.transport.rabbitmq import RabbitMQTransport
from tests.child_process import NodeProcess
from tests.contract.examples import JOB, STATUS, USAGE_RECORD, msgspec_replace
from tests.contract.test_transport import take

pytestmark = pytest.mark.rabbitmq

Connect = Callable[[str], Awaitable[tuple[Bus, RabbitMQTransport]]]


@pytest.fixture
async def connect(rabbitmq_node: NodeProcess) -> AsyncIterator[Connect]:
    opened: list[Bus] = []

    async def start(user: str) -> tuple[Bus, RabbitMQTransport]:
        transport = RabbitMQTransport(rabbitmq_node.amqp_url(user), f"{user}-1", publish_timeout=10)
        bus = Bus(transport)
        opened.append(bus)
        await bus.start()
        return bus, transport

    yield start
    for bus in opened:
        await bus.close()


async def test_the_broker_users_suffice_for_a_whole_job(connect: Connect) -> None:
    (gateway, _), (worker, _), (billing, _) = [await connect(user) for user in ("gateway", "worker", "billing")]
    await worker.declare_model(JOB.model)
    jobs = await worker.jobs(JOB.model, ServiceClass.DEFAULT, prefetch=1)
    controls = await worker.controls([control_targets.worker("w-1"), control_targets.ALL])
    replies, statuses = await gateway.replies("gateway-1"), await gateway.statuses()
    records = await billing.settlements(prefetch=1)

    await gateway.publish_job(msgspec_replace(JOB, deadline=time.time() + 60), {})
    [envelope] = await take(jobs, 1)
    diagnosis = Diagnosis(FailureCode.FAILED_REPEATEDLY, "looked odd", 3, "w-1")
    await worker.move_to_diagnosed(envelope.delivery, diagnosis)
    worker.send_window("gateway-1", Window(worker_id="w-1", replies=[]))
    worker.send_status(STATUS)
    gateway.send_control(control_targets.worker("w-1"), Cancel(job=JOB.id))
    await take(replies, 1)
    await take(statuses, 1)
    await take(controls, 1)
    await worker.publish_settlement(USAGE_RECORD)
    [record] = await take(records, 1)
    await billing.park(record.delivery, "looked odd")
    billing.send_window("gateway-1", Window(worker_id="reaper", replies=[]))
    await take(replies, 1)


@pytest.mark.parametrize(
    ("user", "queue"),
    [
        ("worker", topology.SETTLE_QUEUE),
        ("worker", topology.DEAD_QUEUE),
        ("gateway", topology.SETTLE_QUEUE),
        ("gateway", topology.job_queue(JOB.model, ServiceClass.DEFAULT)),
        ("billing", topology.job_queue(JOB.model, ServiceClass.DEFAULT)),
    ],
)
async def test_users_can_not_consume_queues_of_other_processes(connect: Connect, user: str, queue: str) -> None:
    worker, _ = await connect("worker")
    await worker.declare_model(JOB.model)
    _, transport = await connect(user)
    with pytest.raises(BrokerRefused, match="ACCESS_REFUSED"):
        async with asyncio.timeout(10):
            await transport.consume(queue, prefetch=1)
