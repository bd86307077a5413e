"""A worker sends reasoning apart from the answer, counts its tokens, and continues both after another worker."""

from __future__ import annotations

from typing import Any

import pytest

from router.messages import ChatPrompt, Delta, Failed, Finished
from tests.fakes.counting_text import FIRST
from tests.fakes.thinking_worker import END_THINK, ThinkingEngine, thinking_counting_text
from tests.inference_worker import worker_bench
from tests.inference_worker.worker_bench import Bench, make_job


@pytest.fixture
def bench(monkeypatch: pytest.MonkeyPatch) -> Bench:
    monkeypatch.setattr(worker_bench, "counting_text", thinking_counting_text)
    engine = ThinkingEngine()
    made = Bench(engine)
    made.engine = engine
    return made


def said(bench: Bench, job: str, choice: int = 0) -> tuple[str, str, list[int]]:
    deltas = [reply for reply in bench.of(job) if isinstance(reply, Delta) and reply.choice == choice]
    reasoning, text = "".join(each.reasoning for each in deltas), "".join(each.text for each in deltas)
    return reasoning, text, [id_ for each in deltas for id_ in each.token_ids]


async def answered(bench: Bench, **fields: Any) -> Finished:
    await bench.send(make_job("a", **fields))
    await bench.submitted(1)
    bench.engine.step(8)
    terminal, record = await bench.ended("a")
    assert isinstance(terminal, Finished)
    assert record.usage == terminal.usage
    return terminal


async def test_reasoning_is_sent_and_counted_apart(bench: Bench) -> None:
    async with bench.up():
        terminal = await answered(bench, max_tokens=7, n=2)
    numbers = [FIRST + number for number in range(8)]
    assert said(bench, "a") == ("0 1 2 ", "4 5 6 ", [*numbers[:3], END_THINK, *numbers[4:7]])
    assert said(bench, "a", 1) == ("0 1 2 3 ", "5 6 ", [*numbers[:4], END_THINK, *numbers[5:7]])
    assert (terminal.usage.completion_tokens, terminal.usage.reasoning_tokens) == (14, 4 + 5)


async def test_an_answer_may_end_in_its_reasoning(bench: Bench) -> None:
    async with bench.up():
        terminal = await answered(bench, max_tokens=2)
    assert said(bench, "a")[:2] == ("0 1 ", "")
    assert terminal.usage.reasoning_tokens == 2


@pytest.mark.parametrize(
    ("delivered", "expected"),
    [
        ([0, 1], ("2 ", "4 5 ")),
        ([0, 1, 2], ("", "4 5 ")),
        ([0, 1, 2, None], ("", "4 5 ")),
        ([0, 1, 2, None, 4], ("", "5 ")),
    ],
)
async def test_another_worker_continues_reasoning_and_answer(
    bench: Bench, delivered: list[int | None], expected: tuple[str, str]
) -> None:
    ids = [END_THINK if number is None else FIRST + number for number in delivered]
    async with bench.up():
        terminal = await answered(bench, max_tokens=6, delivered=[ids])
    assert said(bench, "a")[:2] == expected
    assert (terminal.usage.completion_tokens, terminal.usage.reasoning_tokens) == (6, 4)


async def test_a_budget_that_can_not_be_kept_is_refused(bench: Bench) -> None:
    """The vocabulary has no token that begins the reasoning."""
    async with bench.up():
        prompt = ChatPrompt(messages=[{"role": "user", "content": "x"}], thinking_token_budget=3)
        await bench.send(make_job("a", prompt=prompt))
        terminal, _ = await bench.ended("a")
    assert isinstance(terminal, Failed)
    assert terminal.param == "thinking_token_budget"
