"""Which jobs an assistant refuses, how many it answers at once, and how each ends."""

from __future__ import annotations

from typing import Any

import pytest

from router.messages import (
    MAX_DEPTH,
    Failed,
    FailureCode,
    Finished,
    Outcome,
    Prompt,
    SamplingParams,
    TextOptions,
    TextPrompt,
)
from tests.assistant.answers import kinds
from tests.assistant.conftest import Platform
from tests.fakes.assistant_process import ASSISTANT
from tests.fakes.fleet import until

TEXT: Prompt = TextPrompt("Once upon a time")


@pytest.mark.parametrize(
    ("fields", "code", "param"),
    [
        ({"prompt": TEXT}, FailureCode.INVALID_PROMPT, None),
        ({"n": 2}, FailureCode.INVALID_PARAMETER, "n"),
        ({"text": TextOptions(echo=True)}, FailureCode.INVALID_PARAMETER, "prompt_logprobs"),
        (
            {"sampling": SamplingParams(seed=1, prompt_logprobs=1)},
            FailureCode.INVALID_PARAMETER,
            "prompt_logprobs",
        ),
        ({"depth": MAX_DEPTH}, FailureCode.INVALID_PARAMETER, "model"),
    ],
)
async def test_what_an_assistant_can_not_answer_is_refused(
    platform: Platform, fields: dict[str, Any], code: FailureCode, param: str | None
) -> None:
    worker = await platform.fleet.start("worker-1")
    process = await platform.assistant(platform.talents())
    answer = await platform.fleet.ask("p", model=ASSISTANT, **fields)
    await answer.read()
    assert isinstance(answer.terminal, Failed)
    assert (answer.terminal.code, answer.terminal.param) == (code, param)
    await until(lambda: platform.fleet.records)
    assert platform.fleet.records[0].outcome is Outcome.FAILED
    assert not worker.engine.submitted
    errors = {"model_name": ASSISTANT, "finished_reason": "error"}
    assert process.registry.get_sample_value("headrace_request_success_total", errors) == 1


async def test_jobs_beyond_the_slots_wait(platform: Platform) -> None:
    await platform.fleet.start("worker-1")
    talents = platform.talents(concurrency=1)
    talents.router.gate.shut()
    process = await platform.assistant(talents)
    first = await platform.ask("one")
    await until(lambda: talents.router.questions)
    second = await platform.fleet.ask("q", model=ASSISTANT, prompt=first.job.prompt)
    await until(lambda: process.worker.status()["running"] + process.worker.status()["waiting"] >= 1)
    assert talents.router.questions == ["one"]
    talents.router.gate.open()
    await first.read()
    await second.read()
    assert isinstance(second.terminal, Finished)


async def test_an_unexpected_error_fails_the_job_and_nothing_of_it_is_told(platform: Platform) -> None:
    await platform.fleet.start("worker-1")
    talents = platform.talents()

    async def broken(*_: object) -> Any:
        raise ValueError("internal detail")

    talents.router.choose = broken  # type: ignore[method-assign,assignment]
    process = await platform.assistant(talents)
    answer = await platform.ask("hello")
    await answer.read()
    assert isinstance(answer.terminal, Failed)
    assert (answer.terminal.code, answer.terminal.message) == (
        FailureCode.ENGINE_ERROR,
        "The assistant failed on this request.",
    )
    assert process.worker.status()["running"] == 0


async def test_a_drain_lets_answers_finish(platform: Platform) -> None:
    await platform.fleet.start("worker-1")
    talents = platform.talents()
    talents.tool("math").gate.shut()
    process = await platform.assistant(talents)
    answer = await platform.ask("do the math")
    await until(lambda: talents.tool("math").contexts)
    process.stop.set()
    talents.tool("math").gate.open()
    await answer.read()
    assert isinstance(answer.terminal, Finished)
    assert [kind for kind, _, _ in kinds(answer)] == ["route", "tool", "tool"]
    assert len(talents.tool("math").contexts) == 1
