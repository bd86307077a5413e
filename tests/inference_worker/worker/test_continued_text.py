"""Jobs of which an upstream provider has delivered a text without token ids: the worker tokenises and continues it."""

from __future__ import annotations

from inference_worker.engine_protocol import GenerationRequest, RequestFailed, StepReport
from router.messages import Delta, Failed, FailureCode, Finished, TextOptions, Usage
from tests.fakes.counting_text import FIRST
from tests.inference_worker.worker_bench import Bench, make_job


def deltas(bench: Bench, job: str) -> list[Delta]:
    return [reply for reply in bench.of(job) if isinstance(reply, Delta)]


async def test_a_text_goes_on_after_its_tokens_and_at_its_position() -> None:
    async with Bench().up() as bench:
        await bench.send(make_job("a", max_tokens=6, texts=["abc"], text_positions=[1]))
        await bench.submitted(1)
        (request,) = bench.engine.requests
        assert request.delivered == [[ord("a"), ord("b"), ord("c")]]
        bench.engine.step(3)
        terminal, record = await bench.ended("a")
    assert bench.text("a") == "3 4 5 "
    first, *_ = sent = deltas(bench, "a")
    assert first.start == 1
    assert [id_ for each in sent for id_ in each.token_ids] == [FIRST + 3, FIRST + 4, FIRST + 5]
    assert isinstance(terminal, Finished)
    assert (terminal.usage.completion_tokens, record.usage) == (6, terminal.usage), "its tokens count once"


async def test_ids_after_a_text_are_continued_too() -> None:
    async with Bench().up() as bench:
        job = make_job("a", max_tokens=5, texts=["abc"], text_positions=[1], delivered=[[FIRST + 3]])
        await bench.send(job)
        await bench.submitted(1)
        bench.engine.step()
        await bench.ended("a")
    assert [(each.start, each.text) for each in deltas(bench, "a")] == [(2, "4 ")]


async def test_a_text_of_more_tokens_than_the_job_may_have_ends_there() -> None:
    async with Bench().up() as bench:
        await bench.send(make_job("a", max_tokens=2, n=2, texts=["abc", "a"], text_positions=[2, 1]))
        await bench.submitted(1)
        (request,) = bench.engine.requests
        assert (request.delivered, request.ended) == ([[97, 98], [97]], [0])
        bench.engine.step()
        terminal, _ = await bench.ended("a")
    assert [(each.choice, each.start, each.text, each.finish_reason) for each in deltas(bench, "a")] == [
        (0, 2, "", "length"),
        (1, 1, "1 ", "length"),
    ]
    assert isinstance(terminal, Finished)
    assert terminal.usage == Usage(prompt_tokens=terminal.usage.prompt_tokens, completion_tokens=4)


async def test_a_stop_string_that_began_in_a_text_ends_the_answer_without_retracting_it() -> None:
    async with Bench().up() as bench:
        await bench.send(make_job("a", max_tokens=9, text=TextOptions(stop=["bc3"]), texts=["abc"], text_positions=[1]))
        await bench.submitted(1)
        bench.engine.step(1)
        await bench.ended("a")
    assert [(each.text, each.finish_reason, each.stop_reason) for each in deltas(bench, "a")] == [("", "stop", "bc3")]


async def test_a_text_that_does_not_match_the_grammar_is_no_fault_of_the_client() -> None:
    async with Bench().up() as bench:
        await bench.send(make_job("a", max_tokens=9, texts=["abc"], text_positions=[1]))
        await bench.submitted(1)
        (request,) = bench.engine.requests
        assert isinstance(request, GenerationRequest)
        failed = RequestFailed(request=request.id, message="no match", in_grammar=True)
        bench.worker._handler.apply(StepReport(failed=[failed], load=bench.engine._load()))
        terminal, _ = await bench.ended("a")
    assert isinstance(terminal, Failed)
    assert (terminal.code, terminal.param) == (FailureCode.WORKER_LOST, None)
