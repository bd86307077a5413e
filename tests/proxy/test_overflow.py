"""Overflow: a model with local workers and an upstream, which gets only jobs beyond the workers' capacity."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest
from prometheus_client import CollectorRegistry

from proxy.catalogue import ModelSpec, Route, UpstreamSpec
from proxy.metrics import ProxyCollectors, ProxyMetrics
from proxy.upstream import Upstream
from proxy.worker import ProxyWorker
from router import control_targets
from router.bus import Bus
from router.messages import Finished, Job, Resume, ResumeDecision, ResumeRequest
from router.transport.base import Transport
from router.transport.memory import MemoryTransport
from router.transport.rabbitmq import RabbitMQTransport
from tests.fakes.scripted_upstream import Script, ScriptedUpstream, answer, chunk, events_then_silence
from tests.gateway.conftest import eventually
from tests.inference_worker.worker_bench import MODEL, Bench, make_job


@asynccontextmanager
async def outside(transport: Transport, name: str, script: Script, **model: object) -> AsyncIterator[ScriptedUpstream]:
    """Run a proxy with one upstream."""
    bus = Bus(transport)
    await bus.start()
    async with ScriptedUpstream(script).running() as scripted:
        upstream = Upstream(name, UpstreamSpec(base_url=scripted.url), None)
        spec = ModelSpec.model_validate({"max_model_len": 4096, "routes": [Route(upstream=name)], **model})
        metrics = ProxyMetrics(ProxyCollectors(CollectorRegistry()), MODEL)
        stop, hand_over = asyncio.Event(), asyncio.Event()
        worker = ProxyWorker(
            bus, MODEL, spec, {name: upstream}, metrics, worker=name, drain_grace=5, hand_over=hand_over
        )
        running = asyncio.create_task(worker.run(stop))
        try:
            yield scripted
        finally:
            stop.set()
            hand_over.set()
            await asyncio.wait_for(running, 10)
            await bus.close()
            await upstream.close()


async def test_a_full_worker_overflows_and_after_its_end_the_upstream_gets_all_jobs() -> None:
    async with Bench(max_num_seqs=1).up() as bench:  # capacity for two: one runs, one is held ahead
        proxy = MemoryTransport(bench.broker, "proxy-1")
        async with outside(proxy, "proxy-1", answer("outside"), overflow=True) as upstream:
            await bench.send(make_job("a", max_tokens=2), make_job("b", max_tokens=2))
            await bench.submitted(2)
            await asyncio.sleep(0.05)
            assert upstream.requests == []
            await bench.send(make_job("c"))
            await bench.ended("c")
            assert bench.text("c") == "outside"
            assert len(upstream.requests) == 1
            bench.engine.step(4)
            await bench.ended("a")
            await bench.ended("b")
            await bench.send(make_job("d", max_tokens=1))
            await bench.submitted(3)
            bench.engine.step()
            await bench.ended("d")
            assert len(upstream.requests) == 1
            bench.stop.set()
            assert bench.running is not None
            await asyncio.wait_for(bench.running, 10)
            await bench.send(make_job("e"))
            await bench.until(lambda: bench.terminals("e"))
            assert bench.text("e") == "outside"


async def test_a_begun_job_that_comes_to_the_proxy_goes_on_at_a_local_worker() -> None:
    """Like a gateway, the test tells workers what was delivered of the job, and returns the job from proxies."""
    async with Bench(max_num_seqs=1).up() as bench:  # capacity for two
        answered: set[str] = set()

        async def answer_resumption_requests() -> None:
            while True:
                for request in [reply for reply in bench.replies if isinstance(reply, ResumeRequest)]:
                    if request.attempt_id not in answered:
                        answered.add(request.attempt_id)
                        decision = Resume(
                            job=request.job_id,
                            attempt=request.attempt_id,
                            decision=ResumeDecision.START if request.continues else ResumeDecision.RETURN,
                            delivered=[[0]],
                        )
                        for target in ("worker-1", "proxy-1"):
                            bench.outside.send_control(control_targets.worker(target), decision)
                await asyncio.sleep(0.01)

        async with outside(
            MemoryTransport(bench.broker, "proxy-1"), "proxy-1", answer("outside"), overflow=True
        ) as upstream:
            answering = asyncio.create_task(answer_resumption_requests())
            await bench.send(make_job("a", max_tokens=2), make_job("b", max_tokens=2))
            await bench.submitted(2)
            await bench.send(make_job("c", max_tokens=3, copy_number=1))
            await bench.until(lambda: answered)
            assert bench.terminals("c") == []
            bench.engine.step(4)
            await bench.submitted(3)
            bench.engine.step(4)
            terminal, _ = await bench.ended("c")
            answering.cancel()
        assert isinstance(terminal, Finished)
        assert upstream.requests == []


@pytest.mark.rabbitmq
async def test_overflow_on_rabbitmq(rabbitmq_url: str) -> None:
    gateway = Bus(RabbitMQTransport(rabbitmq_url, "gateway-o"))
    await gateway.start()
    await gateway.declare_model(MODEL)
    inbox, statuses = await gateway.replies("gateway-o"), await gateway.statuses()
    local_process, proxy = (RabbitMQTransport(rabbitmq_url, name) for name in ("local-o", "proxy-o"))
    hold = events_then_silence(chunk("held"))
    finished: list[str] = []

    async def answer_resumption_requests() -> None:
        async for window in inbox:
            finished.extend(reply.job_id for reply in window.replies if isinstance(reply, Finished))
            for request in [reply for reply in window.replies if isinstance(reply, ResumeRequest)]:
                start = Resume(job=request.job_id, attempt=request.attempt_id, decision=ResumeDecision.START)
                gateway.send_control(control_targets.worker(window.worker_id), start)

    def job(name: str) -> Job:
        return make_job(name, reply_to="gateway-o")

    answering = asyncio.create_task(answer_resumption_requests())
    async with outside(proxy, "proxy-o", answer("outside"), overflow=True) as upstream:
        async with outside(local_process, "local-o", hold, concurrency=2) as local:
            seen: set[str] = set()
            async for status in statuses:
                seen.add(status.worker)
                if len(seen) == 2:
                    break
            for name in ("a", "b"):
                await gateway.publish_job(job(name), {})
            await eventually(lambda: len(local.requests) == 2)
            assert upstream.requests == []
            await gateway.publish_job(job("c"), {})
            await eventually(lambda: finished == ["c"])
        # The local worker has stopped: the upstream gets the jobs that it held.
        await eventually(lambda: sorted(finished) == ["a", "b", "c"])
    answering.cancel()
    await gateway.close()
