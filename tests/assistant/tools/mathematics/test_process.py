"""Computations in the sandbox: results, hostile expressions, limits, cancellation."""

from __future__ import annotations

import asyncio
import time
from dataclasses import replace

import psutil
import pytest

from assistant.tools.mathematics import sentences
from assistant.tools.mathematics.order import Operation, Order
from assistant.tools.mathematics.process import LIMITS, Calculator
from assistant.tools.tool import InvalidArguments, NotFound, TooLarge, ToolError, Unavailable
from tests.assistant.tools.mathematics.test_bounds import REFUSED

SECOND_WALL = [
    (Operation.FACTOR, "(10^40 + 121) * (10^41 + 9)"),
    (Operation.SIMPLIFY, "(x+1)^300 (x-1)^300 (x+2)^300 (x+3)^300 (x+5)^300 + (x+y)^300"),
    (Operation.EXPAND, "(a+b+c+x+y+z)^250"),
    (Operation.INTEGRATE, "sqrt(tan(x^2)) sqrt(sin(x^3)) exp(x^x) ln(x+1)^5 acos(x)/(1+x^7)"),
    (Operation.SOLVE, "sin(x)^7 + cos(3x)^5 + tan(x/7) + x^5 ln(x) = sqrt(x+1)"),
    (Operation.SOLVE, "x^5 y + y^4 z + z^6 = 1; x y z = 3; x^4+y^5+z^6=7"),
]
"""Within the bounds, and still too much: the limits of the process end them."""


async def test_operations_work_in_the_sandbox() -> None:
    calculator = Calculator()
    for operation, expression, text in [
        (Operation.EVALUATE, "15% * 240", "36"),
        (Operation.INTEGRATE, "x^2 sin x", "-x^2*cos(x) + 2*x*sin(x) + 2*cos(x) + C"),
        (Operation.SOLVE, "cos x = x", "x ≈ 0.739085133215"),
        (Operation.SOLVE, "sin x = 1/2", "x = 2*pi*n + pi/6, x = 2*pi*n + 5*pi/6, n ∈ ℤ"),
        (Operation.SOLVE, "x^2 >= 4", "x ∈ (-∞, -2] ∪ [2, ∞)"),
        (Operation.SOLVE, "x + y = 3; x y = 2", "x = 1, y = 2 / x = 2, y = 1"),
        (Operation.DIFFERENTIATE, "|x|", "sign(x)"),
        (Operation.FACTOR, "x^4 - 1", "(x - 1)*(x + 1)*(x^2 + 1)"),
    ]:
        assert (await calculator.compute(Order(operation, expression))).result_text == text


async def test_failures_have_sentences() -> None:
    calculator = Calculator()
    with pytest.raises(NotFound) as error:
        await calculator.compute(Order(Operation.EVALUATE, "1/0"))
    assert error.value.message("pl") == sentences.UNDEFINED.pl
    with pytest.raises(InvalidArguments):
        await calculator.compute(Order(Operation.SOLVE, "2 + 2"))


async def test_hostile_expressions_are_refused_without_a_process() -> None:
    began = time.perf_counter()
    for expression in REFUSED:
        for operation in (Operation.EVALUATE, Operation.PLOT):
            with pytest.raises(ToolError):
                await Calculator().compute(Order(operation, expression))
    huge = "10^10^10"
    for lower, upper, variable in ((huge, "1", ""), ("1", huge, ""), ("", "", huge)):
        with pytest.raises(ToolError):
            await Calculator().compute(Order(Operation.PLOT, "x", "en", variable, lower, upper))
    assert time.perf_counter() - began < 2
    assert not [each for each in psutil.Process().children() if "sympy" in str(each.cmdline())]


@pytest.mark.parametrize(("operation", "expression"), SECOND_WALL)
async def test_hard_computations_end(operation: Operation, expression: str) -> None:
    began = time.perf_counter()
    cpu = psutil.Process().cpu_times()
    ticks = 0

    async def count() -> None:
        nonlocal ticks
        while True:
            await asyncio.sleep(0.01)
            ticks += 1

    counter = asyncio.create_task(count())
    try:
        with pytest.raises(ToolError):
            await Calculator().compute(Order(operation, expression))
    finally:
        counter.cancel()
    after = psutil.Process().cpu_times()
    used = after.children_user + after.children_system - cpu.children_user - cpu.children_system
    assert used < 3.5  # the process starts, and computes for at most 1.8 s
    assert ticks > (time.perf_counter() - began) * 20  # nothing stalled


async def test_memory_is_limited() -> None:
    calculator = Calculator(replace(LIMITS, memory_bytes=4 * 2**20, cpu_seconds=20.0))
    with pytest.raises((TooLarge, Unavailable)) as error:
        await calculator.compute(Order(Operation.EXPAND, "(a+b+c+x+y+z)^60"))
    assert error.value.message("en") == sentences.TOO_HARD.en


async def test_a_cancelled_computation_leaves_no_process() -> None:
    before = {each.pid for each in psutil.Process().children()}
    task = asyncio.create_task(Calculator().compute(Order(Operation.EXPAND, "(a+b+c+x+y+z)^250")))
    await asyncio.sleep(0.3)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert {each.pid for each in psutil.Process().children()} <= before


async def test_computations_wait_for_one_another() -> None:
    calculator = Calculator()
    orders = [Order(Operation.EVALUATE, f"{number} + {number}") for number in range(5)]
    found = await asyncio.gather(*(calculator.compute(each) for each in orders))
    assert [each.result_text for each in found] == ["0", "2", "4", "6", "8"]


async def test_a_process_that_is_killed_is_replaced_once() -> None:
    own = psutil.Process()
    before = own.children()
    computing = asyncio.create_task(Calculator().compute(Order(Operation.EVALUATE, "15% * 240")))
    while not (children := [each for each in own.children() if each not in before]):
        await asyncio.sleep(0.002)
    children[0].kill()
    assert (await computing).result_text == "36"
