"""Every job gets exactly one terminal and one usage record, and is acknowledged afterwards."""

from __future__ import annotations

import asyncio
import hashlib
import time
from functools import partial
from typing import Any

import pytest
from tenacity import wait_fixed

from inference_worker.engine_protocol import Ready
from inference_worker.worker.generation_handler import GenerationHandler
from inference_worker.worker.worker import capacity
from router import control_targets, topology
from router.consumer import group_commit, job_consumer
from router.errors import BrokerUnavailable
from router.messages import (
    Cancel,
    Cancelled,
    ChatPrompt,
    Delta,
    Failed,
    FailureCode,
    Finished,
    Outcome,
    Resume,
    ResumeDecision,
    ResumeRequest,
    SamplingParams,
    ServiceClass,
    Started,
    TextOptions,
    TextPrompt,
    TokenPrompt,
    UsageRecord,
    WorkerState,
    encode,
)
from router.timings import Timings
from router.transport.base import Outgoing
from tests.fakes.counting_engine import CountingEngine
from tests.fakes.counting_text import FIRST
from tests.inference_worker.worker_bench import CHAT, MODEL, Bench, make_job


async def test_a_job_is_started_streamed_finished_recorded_and_acknowledged() -> None:
    async with Bench().up() as bench:
        await bench.send(make_job("j"))
        await bench.submitted(1)
        bench.engine.step(3)
        terminal, record = await bench.ended("j")
    started = bench.of("j")[0]
    assert isinstance(started, Started)
    assert started.worker_id == "worker-1"
    assert isinstance(terminal, Finished)
    assert bench.text("j") == "0 1 2 "
    assert terminal.usage.prompt_tokens == started.prompt_tokens > 0
    assert terminal.usage.completion_tokens == 3
    assert record.outcome is Outcome.FINISHED
    assert record.usage == terminal.usage
    assert record.attempt == terminal.attempt_id == started.attempt_id
    ids = f"[[{FIRST},{FIRST + 1},{FIRST + 2}]]"
    assert record.digest == hashlib.sha256(ids.encode()).hexdigest()
    assert bench.queued() == 0


async def test_a_worker_with_free_slots_batches_settlements(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(group_commit, "COMMIT_DELAY", 3600.0)
    async with Bench().up() as bench:
        for job in ("a", "b"):
            await bench.send(make_job(job, max_tokens=1))
            await bench.until(lambda: bench.engine.requests)
            bench.engine.step()
            finished = partial(lambda job: bool(bench.of(job)) and isinstance(bench.of(job)[-1], Finished), job)
            await bench.until(finished)
        assert bench.records == []
        bench.stop.set()  # a draining worker does not wait for further records
        await bench.until(lambda: len(bench.records) == 2)
    assert bench.queued() == 0


async def test_a_busy_worker_settles_a_job_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(group_commit, "COMMIT_DELAY", 3600.0)
    async with Bench(max_num_seqs=1).up() as bench:
        await bench.send(make_job("j"))
        await bench.submitted(1)
        bench.engine.step(3)
        await bench.ended("j")


async def test_positions_have_no_gaps_and_the_last_delta_has_the_finish_reason() -> None:
    async with Bench().up() as bench:
        await bench.send(make_job("j", max_tokens=20))
        await bench.submitted(1)
        bench.engine.step(20)
        await bench.ended("j")
    have = 0
    deltas = [reply for reply in bench.of("j") if isinstance(reply, Delta)]
    for delta in deltas:
        assert delta.start == have
        have += len(delta.token_ids)
    assert have == 20
    assert [delta.finish_reason for delta in deltas if delta.finish_reason] == ["length"]


async def test_choices_are_independent_and_usage_is_their_sum() -> None:
    async with Bench().up() as bench:
        await bench.send(make_job("j", n=3, max_tokens=4))
        await bench.submitted(1)
        bench.engine.step(4)
        terminal, _ = await bench.ended("j")
    assert isinstance(terminal, Finished)
    assert terminal.usage.completion_tokens == 12
    assert {bench.text("j", choice) for choice in range(3)} == {"0 1 2 3 "}


async def test_a_stop_string_ends_the_choice_in_the_engine_too() -> None:
    async with Bench().up() as bench:
        await bench.send(make_job("j", max_tokens=100, text=TextOptions(stop=["4 5"])))
        await bench.submitted(1)
        bench.engine.step(10)
        terminal, record = await bench.ended("j")
        assert bench.engine.requests == []
    assert isinstance(terminal, Finished)
    assert bench.text("j") == "0 1 2 3 "
    last = bench.of("j")[-2]
    assert isinstance(last, Delta)
    assert (last.finish_reason, last.stop_reason) == ("stop", "4 5")
    assert record.usage.completion_tokens == 6


async def test_a_stop_token_is_reported_without_its_text() -> None:
    sampling = SamplingParams(seed=1, max_tokens=50, stop_token_ids=[FIRST + 2], logprobs=1)
    async with Bench().up() as bench:
        await bench.send(make_job("j", sampling=sampling))
        await bench.submitted(1)
        bench.engine.step(3)
        await bench.ended("j")
    deltas = [reply for reply in bench.of("j") if isinstance(reply, Delta)]
    assert bench.text("j") == "0 1 "
    assert (deltas[-1].finish_reason, deltas[-1].stop_reason) == ("stop", FIRST + 2)
    assert [one.chosen.id for delta in deltas for one in delta.logprobs or []] == [FIRST, FIRST + 1, FIRST + 2]


@pytest.mark.parametrize(
    ("prompt", "sampling", "code", "param"),
    [
        (TextPrompt("x" * 5000), None, FailureCode.CONTEXT_LENGTH_EXCEEDED, "prompt"),
        (TextPrompt("x" * 2000), SamplingParams(seed=1, max_tokens=49), FailureCode.CONTEXT_LENGTH_EXCEEDED, "prompt"),
        (TextPrompt(""), None, FailureCode.INVALID_PARAMETER, "prompt"),
        (TokenPrompt([]), None, FailureCode.INVALID_PARAMETER, "prompt"),
        (TokenPrompt([1, 10**6]), None, FailureCode.INVALID_PARAMETER, "prompt"),
        (TokenPrompt([-1]), None, FailureCode.INVALID_PARAMETER, "prompt"),
        (CHAT, SamplingParams(seed=1, logit_bias={10**6: 1.0}), FailureCode.INVALID_PARAMETER, "logit_bias"),
        (CHAT, SamplingParams(seed=1, stop_token_ids=[10**6]), FailureCode.INVALID_PARAMETER, "stop_token_ids"),
        (CHAT, SamplingParams(seed=2**70), FailureCode.INVALID_PARAMETER, "seed"),
        (
            ChatPrompt(messages=[{"role": "user", "content": [{"type": "image_url"}]}]),
            None,
            "invalid_prompt",
            "messages",
        ),
        (
            ChatPrompt(messages=[], template_kwargs={"tokenize": True}),
            None,
            "invalid_parameter",
            "chat_template_kwargs",
        ),
    ],
)
async def test_a_rejected_prompt_or_option_fails_with_its_field(prompt, sampling, code, param) -> None:  # type: ignore[no-untyped-def]
    fields = {"sampling": sampling} if sampling else {}
    async with Bench().up() as bench:
        await bench.send(make_job("j", prompt=prompt, **fields))
        terminal, record = await bench.ended("j")
    assert isinstance(terminal, Failed)
    assert (terminal.code, terminal.param) == (code, param)
    assert record.outcome is Outcome.FAILED
    assert record.error == code
    assert record.usage.prompt_tokens == record.usage.completion_tokens == 0
    assert bench.engine.submitted == []


async def test_a_job_past_its_deadline_is_not_begun() -> None:
    async with Bench().up() as bench:
        job = make_job("j", deadline=time.time() - 1)
        # Past the queue's own expiry, as when the broker was blocked (docs/design/queue-topology.md#acknowledgement).
        await bench.outside._transport.publish(
            Outgoing(
                topology.JOBS_EXCHANGE,
                topology.job_routing_key(MODEL, ServiceClass.DEFAULT),
                encode(job),
                persistent=True,
            )
        )
        terminal, record = await bench.ended("j")
    assert isinstance(terminal, Failed)
    assert terminal.code is FailureCode.DEADLINE_EXCEEDED
    assert record.error is FailureCode.DEADLINE_EXCEEDED
    assert bench.engine.submitted == []


@pytest.mark.parametrize("again", [False, True])
async def test_a_job_past_its_start_deadline_is_not_begun_unless_it_was_begun_before(again: bool) -> None:
    async with Bench().up() as bench:
        await bench.send(make_job("j", begin_by=time.time() - 1, copy_number=int(again)))
        if again:
            await bench.until(lambda: bench.of("j"))
            [question] = bench.of("j")
            assert isinstance(question, ResumeRequest)
            start = Resume(job="j", attempt=question.attempt_id, decision=ResumeDecision.START)
            bench.outside.send_control(control_targets.worker(bench.settings.id), start)
            await bench.submitted(1)
            return
        terminal, _ = await bench.ended("j")
    assert isinstance(terminal, Failed)
    assert terminal.code is FailureCode.DEADLINE_EXCEEDED
    assert bench.engine.submitted == []


@pytest.mark.parametrize("ahead", [3600.0, -3600.0])
async def test_a_worker_with_a_clock_an_hour_off_answers(ahead: float) -> None:
    async with Bench().up() as bench:
        now = time.time() - ahead  # the gateway's clock
        times: dict[str, Any] = {"created": now, "begin_by": now + 30, "deadline": now + 60}
        body = encode(make_job("j", max_tokens=2, **times))
        key = topology.job_routing_key(MODEL, ServiceClass.DEFAULT)
        await bench.outside._transport.publish(Outgoing(topology.JOBS_EXCHANGE, key, body, persistent=True))
        await bench.submitted(1)
        bench.engine.step(2)
        terminal, _ = await bench.ended("j")
    assert isinstance(terminal, Finished)


async def test_a_worker_that_loads_its_model_says_so_until_it_is_ready() -> None:
    class SlowToLoad(CountingEngine):
        async def start(self) -> Ready:
            await asyncio.sleep(0.3)
            return await super().start()

    async with Bench(SlowToLoad(), timings=Timings(worker_heartbeat_interval=0.05)).up() as bench:
        states = [(status.state, status.worker, status.model) for status in bench.statuses]
        loading = (WorkerState.STARTING, bench.settings.id, MODEL)
        assert states.count(loading) >= 3
        assert states[: states.count(loading)] == [loading] * states.count(loading)
        assert states[states.count(loading)][0] is WorkerState.READY


async def test_a_running_job_is_stopped_at_its_deadline() -> None:
    async with Bench(timings=Timings(worker_heartbeat_interval=0.01)).up() as bench:
        await bench.send(make_job("j", max_tokens=100, deadline=time.time() + 2))
        await bench.submitted(1)
        bench.engine.step(2)
        terminal, record = await bench.ended("j")
        assert bench.engine.requests == []
    assert isinstance(terminal, Failed)
    assert terminal.code is FailureCode.DEADLINE_EXCEEDED
    assert record.usage.completion_tokens == 2


async def test_a_cancelled_job_is_billed_for_its_released_tokens() -> None:
    async with Bench().up() as bench:
        await bench.send(make_job("j", max_tokens=100))
        await bench.submitted(1)
        bench.engine.step(5)
        await bench.until(lambda: bench.text("j").endswith("4 "))
        bench.outside.send_control(control_targets.worker("worker-1"), Cancel(job="j"))
        terminal, record = await bench.ended("j")
        assert bench.engine.requests == []
    assert isinstance(terminal, Cancelled)
    assert record.outcome is Outcome.CANCELLED
    assert record.usage.completion_tokens == 5


async def test_a_waiting_job_is_cancelled_without_tokens() -> None:
    async with Bench(max_num_seqs=1).up() as bench:
        await bench.send(*(make_job(f"j{number}", max_tokens=100) for number in range(2)))
        await bench.send(make_job("flex", service_class=ServiceClass.FLEX))
        await bench.until(lambda: bench.unsettled() == 3)
        bench.outside.send_control(control_targets.model(MODEL), Cancel(job="flex"))
        terminal, record = await bench.ended("flex")
    assert isinstance(terminal, Cancelled)
    assert record.usage.completion_tokens == 0


async def test_a_cancel_may_arrive_before_its_job() -> None:
    async with Bench().up() as bench:
        bench.outside.send_control(control_targets.ALL, Cancel(job="j"))
        await bench.until(lambda: make_job("j") in bench.worker._consumer._cancelled)
        await bench.send(make_job("j"))
        terminal, record = await bench.ended("j")
    assert isinstance(terminal, Cancelled)
    assert record.usage.prompt_tokens == 0
    assert bench.engine.submitted == []


async def test_jobs_of_a_lost_gateway_are_aborted() -> None:
    async with Bench().up() as bench:
        await bench.send(make_job("gone", reply_to="gateway-2", max_tokens=100), make_job("here", max_tokens=2))
        await bench.submitted(2)
        bench.engine.step()
        await bench.until(lambda: [record for record in bench.records if record.job == "gone"])
        bench.engine.step()
        await bench.ended("here")
        assert bench.engine.requests == []
    (record,) = [record for record in bench.records if record.job == "gone"]
    assert record.outcome is Outcome.CANCELLED


async def test_an_undecodable_message_is_dead_lettered() -> None:
    async with Bench().up() as bench:
        key = topology.job_routing_key(MODEL, ServiceClass.DEFAULT)
        await bench.outside._transport.publish(Outgoing(topology.JOBS_EXCHANGE, key, b"\xff{", persistent=True))
        await bench.until(lambda: len(bench.broker.queue(topology.DEAD_QUEUE)) == 1)
        await bench.send(make_job("j", max_tokens=1))
        await bench.submitted(1)
        bench.engine.step()
        await bench.ended("j")


async def test_the_job_is_acknowledged_only_after_its_record_is_confirmed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(job_consumer, "SETTLE_WAIT", wait_fixed(0.01))
    async with Bench().up() as bench:
        publish, tries = bench.bus.publish_settlement, []

        async def away(record: UsageRecord) -> None:
            tries.append(record)
            if len(tries) < 3:
                raise BrokerUnavailable("away")
            assert len(bench.worker._consumer.attempts) == 1
            await publish(record)

        monkeypatch.setattr(bench.bus, "publish_settlement", away)
        await bench.send(make_job("j", max_tokens=1))
        await bench.submitted(1)
        bench.engine.step()
        await bench.ended("j")
    assert len(tries) == 3


async def test_replies_wait_for_a_blocked_broker(monkeypatch: pytest.MonkeyPatch) -> None:
    async with Bench().up() as bench:
        post, away = bench.transport.publish_unconfirmed, [True]

        def blocked(message: Outgoing, *, mandatory: bool = False) -> None:
            if away[0]:
                raise BrokerUnavailable("away")
            post(message, mandatory=mandatory)

        monkeypatch.setattr(bench.transport, "publish_unconfirmed", blocked)
        await bench.send(make_job("j", max_tokens=5))
        await bench.submitted(1)
        bench.engine.step(5)
        await bench.until(lambda: bench.records)
        assert bench.of("j") == []
        away[0] = False
        await bench.ended("j")
    assert bench.text("j") == "0 1 2 3 4 "


async def test_an_exception_in_preparing_fails_the_job_not_the_worker(monkeypatch: pytest.MonkeyPatch) -> None:
    async with Bench().up() as bench:
        handler = bench.worker._handler
        assert isinstance(handler, GenerationHandler)
        real = handler._text.prepare

        async def broken(job, *rest):  # type: ignore[no-untyped-def]
            if job.id == "j":
                raise ZeroDivisionError
            return await real(job, *rest)

        monkeypatch.setattr(handler._text, "prepare", broken)
        await bench.send(make_job("j"))
        terminal, _ = await bench.ended("j")
        await bench.send(make_job("k", max_tokens=1))
        await bench.submitted(1)
        bench.engine.step()
        await bench.ended("k")
    assert isinstance(terminal, Failed)
    assert terminal.code is FailureCode.ENGINE_ERROR


def test_capacity_is_the_batch_and_the_admission_headroom() -> None:
    assert [capacity(seqs) for seqs in (1, 4, 20, 64)] == [2, 5, 21, 68]


async def test_heartbeats_describe_the_model() -> None:
    async with Bench(max_num_seqs=7).up() as bench:
        await bench.until(lambda: bench.statuses)
    status = bench.statuses[0]
    assert (status.worker, status.model, status.max_num_seqs, status.max_model_len) == ("worker-1", MODEL, 7, 2048)
    assert status.max_token_bytes == len("<|begin|>")
