"""Overflow keeps streams, over both transports: what a proxy began continues at a worker, what a worker began returns
from the proxy to a worker. No gap, no repetition, one exact bill, and no count of deliveries ends the stream."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest
from prometheus_client import CollectorRegistry
from tenacity import wait_fixed

from proxy.catalogue import ModelSpec, Route, UpstreamSpec
from proxy.metrics import ProxyCollectors, ProxyMetrics
from proxy.upstream import Upstream
from proxy.worker import ProxyWorker
from router.bus import Bus
from router.consumer import job_consumer
from router.messages import Finished
from router.topology import JOB_DELIVERY_LIMIT
from tests.contract.conftest import MakeTransport
from tests.fakes.fleet import MODEL, Fleet, counted, until
from tests.fakes.scripted_upstream import Script, ScriptedUpstream, answer, chunk, events_then_silence


@asynccontextmanager
async def overflow_proxy(make_transport: MakeTransport, script: Script) -> AsyncIterator[asyncio.Event]:
    """Run an overflow proxy of the fleet's model; setting the event kills it, without a report to any gateway."""
    transport = await make_transport("proxy-1")
    bus = Bus(transport)
    await bus.start(declares_platform=False)
    async with ScriptedUpstream(script).running() as scripted:
        upstream = Upstream("outside", UpstreamSpec(base_url=scripted.url), None)
        spec = ModelSpec(max_model_len=2048, routes=[Route(upstream="outside")], overflow=True, concurrency=4)
        metrics = ProxyMetrics(ProxyCollectors(CollectorRegistry()), MODEL)
        stop, killed = asyncio.Event(), asyncio.Event()
        proxy = ProxyWorker(
            bus, MODEL, spec, {"outside": upstream}, metrics, worker="proxy-1", drain_grace=0, hand_over=stop
        )

        async def end() -> None:
            await killed.wait()
            await transport.close()
            running.cancel()

        running, ending = asyncio.create_task(proxy.run(stop)), asyncio.create_task(end())
        try:
            await until(lambda: proxy._consumer._consumers)
            yield killed
        finally:
            killed.set()
            await asyncio.wait([running, ending])
            await upstream.close()


async def test_an_answer_that_a_killed_proxy_began_continues_at_a_worker(make_transport: MakeTransport) -> None:
    async with Fleet(make_transport) as fleet:
        async with overflow_proxy(make_transport, events_then_silence(chunk("ab"), chunk("c"))) as killed:
            begun = await fleet.ask("j", 40)
            await begun.read(2)
            assert begun.texts == ["abc"]
            await fleet.start("worker-1")
            killed.set()
            await begun.read()
        assert begun.texts == ["abc" + counted(40).partition("2 ")[2]], "the worker's tokens follow those of the text"
        assert isinstance(begun.terminal, Finished)
        assert begun.terminal.usage.completion_tokens == 40
        await until(lambda: fleet.records)
        (record,) = fleet.records
        assert (record.worker, record.usage) == ("worker-1", begun.terminal.usage)


async def test_an_answer_continues_after_a_lost_proxy_and_lost_workers(make_transport: MakeTransport) -> None:
    async with Fleet(make_transport) as fleet:
        async with overflow_proxy(make_transport, events_then_silence(chunk("abc"))) as killed:
            begun = await fleet.ask("j", 40)
            await begun.read(1)
            worker = await fleet.start("worker-1", step_time=None)
            killed.set()
            for number in range(2, 5):
                await until(lambda worker=worker: worker.engine.requests)  # type: ignore[misc]
                worker.engine.step(3)
                await begun.read(begun.tokens + 3)
                replacement = await fleet.start(f"worker-{number}", step_time=None if number < 4 else 0.005)
                await worker.kill()
                worker = replacement
            await begun.read()
        assert begun.texts == ["abc" + counted(40).partition("2 ")[2]]
        assert isinstance(begun.terminal, Finished)
        assert begun.terminal.usage.completion_tokens == 40


async def test_a_begun_answer_returns_from_the_proxy_until_a_worker_continues_it(
    make_transport: MakeTransport, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It is returned more often than all limits of one message and of its copies without progress allow."""
    monkeypatch.setattr(job_consumer, "RETURN_WAIT", wait_fixed(0.01))
    async with Fleet(make_transport, republish_limit=2) as fleet, overflow_proxy(make_transport, answer("outside")):
        first = await fleet.start("worker-1", step_time=None)
        begun = await fleet.ask("j", 40)
        await until(lambda: first.engine.requests)
        first.engine.step(5)
        await begun.read(5)
        await first.kill()
        await until(lambda: begun.recovery.copies.newest > JOB_DELIVERY_LIMIT)
        assert not begun.unread.peek()
        await fleet.start("worker-2")
        await begun.read()
        assert begun.texts == [counted(40)]
        assert isinstance(begun.terminal, Finished)
        assert begun.terminal.usage.completion_tokens == 40
        await until(lambda: fleet.records)
        assert [(record.worker, record.usage) for record in fleet.records] == [("worker-2", begun.terminal.usage)]
