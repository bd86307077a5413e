"""Computations in the sandbox: results, hostile expressions, limits, cancellation."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Iterator
from dataclasses import replace

import psutil
import pytest

from assistant.tools.mathematics import sentences
from assistant.tools.mathematics.order import Operation, Order
from assistant.tools.mathematics.process import LIMITS, Calculator
from assistant.tools.tool import InvalidArguments, NotFound, TooLarge, ToolContext, ToolError, Unavailable
from tests.runtime.mathematics.test_bounds import REFUSED

SECOND_WALL = [
    (Operation.FACTOR, "(10^40 + 121) * (10^41 + 9)"),
    (Operation.SIMPLIFY, "(x+1)^300 (x-1)^300 (x+2)^300 (x+3)^300 (x+5)^300 + (x+y)^300"),
    (Operation.EXPAND, "(a+b+c+x+y+z)^250"),
    (Operation.INTEGRATE, "sqrt(tan(x^2)) sqrt(sin(x^3)) exp(x^x) ln(x+1)^5 acos(x)/(1+x^7)"),
    (Operation.SOLVE, "sin(x)^7 + cos(3x)^5 + tan(x/7) + x^5 ln(x) = sqrt(x+1)"),
    (Operation.SOLVE, "x^5 y + y^4 z + z^6 = 1; x y z = 3; x^4+y^5+z^6=7"),
]
"""Within the bounds, and still too much: the limits of the process end them."""


ANNA, BOB = ToolContext("acme", "anna", "en"), ToolContext("acme", "bob", "en")


@pytest.fixture
def calculator() -> Iterator[Calculator]:
    calculator = Calculator()
    yield calculator
    calculator.close()


@pytest.fixture
def patient() -> Iterator[Calculator]:
    """Calculator with limits that a busy machine does not reach."""
    calculator = Calculator(replace(LIMITS, cpu_seconds=60.0, busy_seconds=90.0, wait_seconds=90.0))
    yield calculator
    calculator.close()


async def test_operations_work_in_the_sandbox(patient: Calculator) -> None:
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
        assert (await patient.compute(Order(operation, expression), ANNA)).result_text == text


async def test_failures_have_sentences(patient: Calculator) -> None:
    with pytest.raises(NotFound) as error:
        await patient.compute(Order(Operation.EVALUATE, "1/0"), ANNA)
    assert error.value.message("pl") == sentences.UNDEFINED.pl
    with pytest.raises(InvalidArguments):
        await patient.compute(Order(Operation.SOLVE, "2 + 2"), ANNA)


async def test_hostile_expressions_are_refused_without_a_process(calculator: Calculator) -> None:
    before = set(psutil.Process().children())
    began = time.process_time()
    for expression in REFUSED:
        for operation in (Operation.EVALUATE, Operation.PLOT):
            with pytest.raises(ToolError):
                await calculator.compute(Order(operation, expression), ANNA)
    huge = "10^10^10"
    for lower, upper, variable in ((huge, "1", ""), ("1", huge, ""), ("", "", huge)):
        with pytest.raises(ToolError):
            await calculator.compute(Order(Operation.PLOT, "x", "en", variable, lower, upper), ANNA)
    assert time.process_time() - began < 2
    assert set(psutil.Process().children()) == before


@pytest.mark.parametrize(("operation", "expression"), SECOND_WALL)
async def test_hard_computations_end(calculator: Calculator, operation: Operation, expression: str) -> None:
    with pytest.raises(ToolError):
        await calculator.compute(Order(operation, expression), ANNA)


def test_the_limits_end_a_computation_within_two_seconds() -> None:
    assert LIMITS.cpu_seconds < LIMITS.busy_seconds < 2


async def test_a_computation_does_not_wait_for_anothers_bombs() -> None:
    calculator = Calculator(
        replace(LIMITS, busy_seconds=90.0, wait_seconds=90.0)
    )  # CPU time ends them on a busy machine
    bombs = [asyncio.create_task(calculator.compute(Order(*SECOND_WALL[2]), ANNA)) for _ in range(20)]
    await asyncio.sleep(0)
    assert (await calculator.compute(Order(Operation.EVALUATE, "2 + 2"), BOB)).result_text == "4"
    assert sum(not each.done() for each in bombs) == 20
    refused = await asyncio.gather(*bombs, return_exceptions=True)
    assert [type(each) for each in refused] == [TooLarge, *[Unavailable] * 19]  # one ran, and the others were dropped
    assert "took too long" in str(refused[1])
    calculator.close()


@pytest.mark.parametrize("expression", ["tan(1/x)", "1/sin(100x)", "tan(x^9)/sin(1/x)", "1/(x-1)/(x-2)/(x-3)"])
async def test_plots_with_poles_are_drawn(patient: Calculator, expression: str) -> None:
    plot = (await patient.compute(Order(Operation.PLOT, expression), ANNA)).plot
    assert plot is not None
    assert len(plot.y) <= 400
    assert None in plot.y


async def test_memory_is_limited() -> None:
    calculator = Calculator(replace(LIMITS, memory_bytes=4 * 2**20, cpu_seconds=20.0, busy_seconds=20.0))
    with pytest.raises((TooLarge, Unavailable)) as error:
        await calculator.compute(Order(Operation.EXPAND, "(a+b+c+x+y+z)^60"), ANNA)
    calculator.close()
    assert error.value.message("en") == sentences.TOO_HARD.en


async def test_a_cancelled_computation_leaves_no_process(patient: Calculator) -> None:
    await patient.compute(Order(Operation.EVALUATE, "2 + 2"), ANNA)
    computing = asyncio.create_task(patient.compute(Order(*SECOND_WALL[2]), ANNA))
    [server] = (each for each in psutil.Process().children() if each.pid == patient.process_id)
    while not server.children():
        await asyncio.sleep(0.002)
    computing.cancel()
    with pytest.raises(asyncio.CancelledError):
        await computing
    assert not server.children()


async def test_computations_wait_for_one_another(patient: Calculator) -> None:
    orders = [Order(Operation.EVALUATE, f"{number} + {number}") for number in range(5)]
    found = await asyncio.gather(*(patient.compute(each, ANNA) for each in orders))
    assert [each.result_text for each in found] == ["0", "2", "4", "6", "8"]


@pytest.mark.parametrize("whole", [True, False])
async def test_processes_that_are_killed_are_replaced_once(patient: Calculator, whole: bool) -> None:
    await patient.compute(Order(Operation.EVALUATE, "2 + 2"), ANNA)
    computing = asyncio.create_task(patient.compute(Order(Operation.INTEGRATE, "x^2 sin x"), ANNA))
    [server] = (each for each in psutil.Process().children() if each.pid == patient.process_id)
    while not (children := server.children()):
        await asyncio.sleep(0.002)
    (server if whole else children[0]).kill()
    assert (await computing).result_text.startswith("-x^2*cos(x)")
