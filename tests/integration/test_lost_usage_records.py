"""The auditor finds no difference in jobs whose worker died after the terminal reply, before the usage record.

A whole platform on the in-memory transport and the real store: plain workers and assistants.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Sequence
from pathlib import Path

import pytest

from auth_billing.audit.audit_records import Check
from auth_billing.audit.auditor import Auditor
from auth_billing.store.audit import MongoAuditStore
from router import topology
from router.messages import ServiceClass
from router.timings import DEFAULT_TIMINGS
from router.transport.base import Outgoing
from router.transport.memory import MemoryBroker, MemoryTransport
from tests.fakes.assistant_process import ASSISTANT, AssistantProcess, talents
from tests.fakes.counting_engine import CountingEngine
from tests.fakes.fleet import FleetWorker, until
from tests.fakes.paying_platform import MODEL, PayingPlatform

pytestmark = pytest.mark.store


class LosingTransport(MemoryTransport):
    """A connection that confirms no usage record, as of a process that dies before it publishes one."""

    def __init__(self, broker: MemoryBroker, name: str) -> None:
        super().__init__(broker, name)
        self.withheld = asyncio.Event()

    async def publish(self, message: Outgoing) -> None:
        if message.routing_key == topology.SETTLE_ROUTING_KEY:
            self.withheld.set()
            await asyncio.Event().wait()
        await super().publish(message)


async def _found_later(platform: PayingPlatform) -> Sequence[Check]:
    """Return what the auditor reports when usage records are no longer expected."""

    def later() -> float:
        return time.time() + 2 * DEFAULT_TIMINGS.settlement_overdue_after

    report = await Auditor(MongoAuditStore(platform.connection), clock=later, pause=0.0).audit()
    return [each.check for each in report.differences]


@pytest.mark.parametrize("model", [MODEL, ASSISTANT])
async def test_a_usage_record_that_died_with_its_process_is_no_difference(
    model: str, database_url: str, tmp_path: Path
) -> None:
    broker = MemoryBroker()

    async def started(transport: MemoryTransport) -> MemoryTransport:
        await transport.start()
        await transport.declare(topology.platform())
        return transport

    async def worker(name: str, transport: MemoryTransport) -> FleetWorker:
        return FleetWorker(await started(transport), name, CountingEngine(step_time=0.001))

    async def assistant(name: str, transport: MemoryTransport) -> AssistantProcess:
        return await AssistantProcess(await started(transport), name, talents()).start()

    start = worker if model == MODEL else assistant
    losing = LosingTransport(broker, "first")
    async with PayingPlatform(lambda name: MemoryTransport(broker, name), database_url, tmp_path) as platform:
        answering = await worker("answering", MemoryTransport(broker, "answering"))
        await platform.start(gateways=1, workers=0, make_engine=CountingEngine)
        if model == MODEL:
            await answering.end()
        first = await start("first", losing)
        await until(lambda: platform.gateways[0].models.find(model))
        question = [{"role": "user", "content": "do the math"}]
        answer = await platform.client().chat.completions.create(model=model, messages=question, max_tokens=40)  # type: ignore[arg-type]
        await losing.withheld.wait()
        second = await start("second", MemoryTransport(broker, "second"))
        await first.kill()
        queue = broker.queue(topology.job_queue(model, ServiceClass.DEFAULT))
        await until(lambda: not len(queue) and not len(second.worker._consumer.attempts))
        await platform.settled()
        [job] = await platform.documents("jobs")
        assert answer.usage is not None
        assert (job["_id"], job["final"]["completion_tokens"]) == (answer.id, answer.usage.completion_tokens)
        assert [each for each in await platform.documents("usage") if each["job"] == job["_id"]] == []
        assert await _found_later(platform) == []
        jobs = platform.connection.durable("jobs")
        await jobs.update_one({"_id": job["_id"]}, {"$inc": {"final.reported.completion_tokens": -1}})
        assert await _found_later(platform) == [Check.WORKED]
        await second.end()
        if model == ASSISTANT:
            await answering.end()
