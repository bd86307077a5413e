"""Malformed messages on every queue are dropped or parked; later ones are read (docs/design/hostile-input.md#H114)."""

from __future__ import annotations

import struct
import time
from typing import Any

import pytest
from pika import data

from router import control_targets, topology
from router.bus import Bus
from router.messages import Cancel, ServiceClass, Window, encode
from router.transport.base import Outgoing, Transport
from router.transport.rabbitmq import header_decoding
from tests.contract.conftest import MakeTransport
from tests.contract.examples import EXAMPLES, JOB, STATUS, USAGE_RECORD, msgspec_replace
from tests.contract.test_transport import take

BODIES = {
    "empty": b"",
    "no text": b"\xff\xfe\x00",
    "no JSON": b"{",
    "not an object": b"[]",
    "another message": encode(EXAMPLES["control_drain"]),
    "another version": encode(JOB).replace(b'"v":1', b'"v":2'),
    "fields missing": b'{"type":"job"}',
    "wrong types": encode(JOB).replace(b'"model":"', b'"model":7,"x":"'),
    "deep": b"[" * 100_000,
    "two megabytes": b'{"type":"job","id":"' + b"x" * 2 * 2**20,
}
JOB_KEY = topology.job_routing_key(JOB.model, ServiceClass.DEFAULT)


async def connected(make_transport: MakeTransport) -> tuple[Bus, Transport]:
    transport = await make_transport("worker-1")
    await transport.declare(topology.platform())
    bus = Bus(transport)
    await bus.declare_model(JOB.model)
    return bus, transport


async def test_shared_queues_dead_letter_malformed_messages(make_transport: MakeTransport) -> None:
    bus, transport = await connected(make_transport)
    jobs = await bus.jobs(JOB.model, ServiceClass.DEFAULT, prefetch=1)
    settlements = await bus.settlements(prefetch=1)
    for body in BODIES.values():
        await transport.publish(Outgoing(topology.JOBS_EXCHANGE, JOB_KEY, body))
        await transport.publish(Outgoing(topology.SETTLE_EXCHANGE, topology.SETTLE_ROUTING_KEY, body))
    await bus.publish_job(msgspec_replace(JOB, deadline=time.time() + 60), {})
    await bus.publish_settlement(USAGE_RECORD)
    [job], [record] = await take(jobs, 1), await take(settlements, 1)
    assert (job.message.id, record.message) == (JOB.id, USAGE_RECORD)
    job.delivery.ack()
    record.delivery.ack()
    dead = await take(await bus.dead_jobs(prefetch=len(BODIES)), len(BODIES))
    parked = await take(await transport.consume(topology.PARKED_QUEUE, prefetch=len(BODIES)), len(BODIES))
    for letters in (dead, parked):
        assert [letter.body for letter in letters] == list(BODIES.values())
        for letter in letters:
            letter.ack()


async def test_private_queues_drop_malformed_messages(make_transport: MakeTransport) -> None:
    bus, transport = await connected(make_transport)
    windows, statuses = await bus.replies("gateway-1"), await bus.statuses()
    controls = await bus.controls([control_targets.ALL])
    for body in BODIES.values():
        for exchange, key in (
            (topology.REPLY_EXCHANGE, "gateway-1"),
            (topology.STATUS_EXCHANGE, ""),
            (topology.CONTROL_EXCHANGE, "all"),
        ):
            transport.publish_unconfirmed(Outgoing(exchange, key, body))
    window, cancel = Window(worker_id="w-1", replies=[]), Cancel(job="j")
    bus.send_window("gateway-1", window)
    bus.send_status(STATUS)
    bus.send_control(control_targets.ALL, cancel)
    heard = [await take(feed, 2 if feed is controls else 1) for feed in (windows, statuses, controls)]
    assert heard == [[window], [STATUS], [EXAMPLES["control_drain"], cancel]]


def table(*fields: bytes) -> bytes:
    whole = b"".join(fields)
    return struct.pack(">I", len(whole)) + whole


def nested(depth: int) -> bytes:
    whole = b""
    for _ in range(depth):
        whole = b"\x01nF" + struct.pack(">I", len(whole)) + whole
    return struct.pack(">I", len(whole)) + whole


TABLES = {
    "a time that is none": table(b"\x01tT" + struct.pack(">Q", 2**63)),
    "a number that is none": table(b"\x01dd" + struct.pack(">d", float("nan"))),
    "an endless number": table(b"\x01ff" + struct.pack(">f", float("inf"))),
    "tables in tables": nested(2000),
}
TAKEN_BY_THE_BROKER = ("a time that is none", "tables in tables")
"""Invalid numbers end the connection of their sender."""


@pytest.mark.parametrize("encoded", TABLES.values(), ids=TABLES)
def test_undecodable_headers_are_read_as_empty(encoded: bytes, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(data, "decode_table", header_decoding._decode_table)
    with pytest.raises((ValueError, OverflowError, OSError, RecursionError)):
        header_decoding._decode_table(encoded, 0)
    header_decoding.patch_pika()
    _, end = data.decode_table(encoded + b"rest", 0)
    assert end == len(encoded)


@pytest.mark.rabbitmq
async def test_a_connection_survives_undecodable_headers(
    rabbitmq_url: str, make_transport: MakeTransport, monkeypatch: pytest.MonkeyPatch
) -> None:
    bus, transport = await connected(make_transport)
    jobs = await bus.jobs(JOB.model, ServiceClass.DEFAULT, prefetch=1)
    original = data.encode_table

    def encode_table(pieces: list[bytes], headers: dict[str, Any]) -> int:
        if (raw := headers.get("raw")) is None:
            return int(original(pieces, headers))
        pieces.append(TABLES[raw])
        return len(TABLES[raw])

    monkeypatch.setattr(data, "encode_table", encode_table)
    job = msgspec_replace(JOB, deadline=time.time() + 60)
    for name in TAKEN_BY_THE_BROKER:
        await transport.publish(Outgoing(topology.JOBS_EXCHANGE, JOB_KEY, encode(job), {"raw": name}))
    for _ in TAKEN_BY_THE_BROKER:
        [taken] = await take(jobs, 1)
        assert (taken.message.id, taken.delivery.redelivered) == (JOB.id, False)
        taken.delivery.ack()
