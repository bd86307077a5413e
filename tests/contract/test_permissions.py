"""Each process can work with its own broker user, and cannot do another process's work."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import ExitStack
from functools import partial
from operator import methodcaller

import pika
import pytest
from pika.adapters.blocking_connection import BlockingChannel
from pika.exceptions import ChannelClosedByBroker

from router import control_targets, messages, topology
from router.bus import Bus
from router.diagnosis import REASON_HEADER, Diagnosis
from router.errors import BrokerRefused
from router.messages import Cancel, FailureCode, ServiceClass, Window
from router.transport.rabbitmq import RabbitMQTransport
from tests.child_process import NodeProcess
from tests.contract.examples import JOB, RECEIPT, STATUS, USAGE_RECORD, msgspec_replace
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
        await bus.start(declares_platform=user not in ("worker", "assistant", "searcher"))
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


@pytest.mark.parametrize("parent", ["assistant", "searcher"])
async def test_the_user_suffices_for_a_job_with_a_child_job(connect: Connect, parent: str) -> None:
    users = ("gateway", "worker", parent, "billing")
    (gateway, _), (worker, _), (assistant, _), (billing, _) = [await connect(user) for user in users]
    await assistant.declare_model("assistant")
    await worker.declare_model(JOB.model)
    jobs = await assistant.jobs("assistant", ServiceClass.DEFAULT, prefetch=1)
    inbox, statuses = await assistant.replies("assistant-1"), await assistant.statuses()
    await assistant.controls([control_targets.worker("a-1"), control_targets.model("assistant"), control_targets.ALL])
    child_jobs = await worker.jobs(JOB.model, ServiceClass.DEFAULT, prefetch=1)
    controls, replies = await worker.controls([control_targets.worker("w-1")]), await gateway.replies("gateway-1")

    job = msgspec_replace(JOB, model="assistant", deadline=time.time() + 60)
    await gateway.publish_job(job, {})
    [envelope] = await take(jobs, 1)
    child = msgspec_replace(JOB, parent=job.id, depth=1, reply_to="assistant-1", deadline=job.deadline)
    await assistant.publish_job(child, {})
    [child_envelope] = await take(child_jobs, 1)
    worker.send_window("assistant-1", Window(worker_id="w-1", replies=[]))
    worker.send_status(STATUS)
    assistant.send_control(control_targets.worker("w-1"), Cancel(job=child.id))
    await take(inbox, 1)
    await take(statuses, 1)
    await take(controls, 1)
    assistant.send_window("gateway-1", Window(worker_id="a-1", replies=[]))
    assistant.send_status(STATUS)
    await take(replies, 1)
    records = await billing.settlements(prefetch=1)
    await assistant.publish_settlement(USAGE_RECORD)
    [record] = await take(records, 1)
    record.delivery.ack()
    await assistant.move_to_diagnosed(envelope.delivery, Diagnosis(FailureCode.FAILED_REPEATEDLY, "odd", 3, "a-1"))
    child_envelope.delivery.ack()


@pytest.mark.parametrize(
    ("user", "queue"),
    [
        ("assistant", topology.SETTLE_QUEUE),
        ("assistant", topology.DEAD_QUEUE),
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


@pytest.fixture
def open_channel(rabbitmq_node: NodeProcess) -> Iterator[Callable[[str], BlockingChannel]]:
    """Open a channel with a user's credentials, as an attacker on that user's machine could."""
    with ExitStack() as opened:

        def start(user: str) -> BlockingChannel:
            connection = pika.BlockingConnection(pika.URLParameters(rabbitmq_node.amqp_url(user)))
            opened.callback(connection.close)
            channel = connection.channel()
            channel.confirm_delivery()
            return channel

        yield start


QUEUES = [queue.name for queue in topology.platform().queues]
EXCHANGES = [exchange.name for exchange in topology.platform().exchanges]


def _read_controls(key: str, channel: BlockingChannel) -> None:
    channel.queue_bind(channel.queue_declare("", exclusive=True).method.queue, topology.CONTROL_EXCHANGE, key)


ATTACKS: dict[str, Callable[[BlockingChannel], object]] = {
    **{f"delete {name}": methodcaller("queue_delete", name) for name in QUEUES},
    **{f"purge {name}": methodcaller("queue_purge", name) for name in QUEUES},
    **{f"declare {name}": methodcaller("queue_declare", name, durable=True) for name in QUEUES},
    **{f"delete {name}": methodcaller("exchange_delete", name) for name in EXCHANGES},
    "copy control messages between gateways": methodcaller(
        "exchange_bind", topology.REPLY_EXCHANGE, topology.CONTROL_EXCHANGE, control_targets.gateway("*")
    ),
    "bind the settlement queue": methodcaller("queue_bind", topology.SETTLE_QUEUE, topology.REPLY_EXCHANGE, "x"),
    "unbind the receipts": methodcaller(
        "queue_unbind", topology.SETTLE_QUEUE, topology.RECEIPTS_EXCHANGE, topology.SETTLE_ROUTING_KEY
    ),
    "read receipts": lambda channel: channel.queue_bind(
        channel.queue_declare("", exclusive=True).method.queue, topology.RECEIPTS_EXCHANGE, topology.SETTLE_ROUTING_KEY
    ),
    **{
        f"read control messages with {key}": partial(_read_controls, key)
        for key in (control_targets.gateway("*"), control_targets.GATEWAYS, "#", "*.*")
    },
    **{
        f"publish to {exchange!r} with {key}": methodcaller("basic_publish", exchange, key, messages.encode(RECEIPT))
        for exchange, key in (
            (topology.RECEIPTS_EXCHANGE, topology.SETTLE_ROUTING_KEY),
            (topology.DEAD_LETTERS_EXCHANGE, topology.SETTLE_ROUTING_KEY),
            ("", topology.SETTLE_QUEUE),
            (topology.JOBS_EXCHANGE, topology.job_routing_key(JOB.model, ServiceClass.DEFAULT)),
            (topology.CONTROL_EXCHANGE, control_targets.ALL),
            (topology.CONTROL_EXCHANGE, control_targets.GATEWAYS),
            (topology.CONTROL_EXCHANGE, control_targets.gateway("x")),
        )
    },
}


PUBLISHED_BY_ASSISTANTS = [name for name in ATTACKS if name.startswith(f"publish to {topology.JOBS_EXCHANGE!r}")]


@pytest.mark.parametrize("attack", [name for name in ATTACKS if name not in PUBLISHED_BY_ASSISTANTS])
def test_an_assistants_credentials_do_not_reach_receipts_or_the_platforms_queues(
    open_channel: Callable[[str], BlockingChannel], attack: str
) -> None:
    assert len(PUBLISHED_BY_ASSISTANTS) == 1
    with pytest.raises(ChannelClosedByBroker, match="ACCESS_REFUSED"):
        ATTACKS[attack](open_channel("assistant"))


@pytest.mark.parametrize("attack", ATTACKS.values(), ids=ATTACKS.keys())
def test_a_workers_credentials_do_not_reach_receipts_or_the_platforms_queues(
    open_channel: Callable[[str], BlockingChannel], attack: Callable[[BlockingChannel], object]
) -> None:
    with pytest.raises(ChannelClosedByBroker, match="ACCESS_REFUSED"):
        attack(open_channel("worker"))


async def test_a_receipt_that_a_worker_publishes_as_a_usage_record_settles_nothing(
    connect: Connect, open_channel: Callable[[str], BlockingChannel]
) -> None:
    gateway, _ = await connect("gateway")
    billing, transport = await connect("billing")
    settlements = await billing.settlements(prefetch=10)
    forged = msgspec_replace(RECEIPT, job="job-forged")
    open_channel("worker").basic_publish(
        topology.SETTLE_EXCHANGE, topology.SETTLE_ROUTING_KEY, messages.encode(forged), mandatory=True
    )
    await gateway.publish_settlement(RECEIPT)
    [envelope] = await take(settlements, 1)
    assert envelope.message == RECEIPT
    envelope.delivery.ack()
    parked = await transport.consume(topology.PARKED_QUEUE, prefetch=10)
    async with asyncio.timeout(10):
        async for delivery in parked:
            delivery.ack()
            if delivery.body == messages.encode(forged):
                break
    assert topology.RECEIPTS_EXCHANGE in str(delivery.headers[REASON_HEADER])
