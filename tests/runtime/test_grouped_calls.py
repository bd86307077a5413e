"""Calls at the same time are handled together, and each gets its own result, or the error of its group."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

import pytest

from runtime.grouped_calls import GROUP, GroupedCalls


class Squares:
    """Squares numbers, group by group; a group with a negative number is refused."""

    def __init__(self) -> None:
        self.groups: list[list[int]] = []
        self.gate = asyncio.Event()
        self.gate.set()

    async def __call__(self, numbers: Sequence[int]) -> list[int]:
        self.groups.append(list(numbers))
        await self.gate.wait()
        if min(numbers) < 0:
            raise ValueError(numbers)
        return [each * each for each in numbers]


async def test_calls_at_the_same_time_are_one_group_with_a_result_for_each() -> None:
    squares = Squares()
    calls = GroupedCalls(squares, 0.01)
    assert await asyncio.gather(*map(calls.call, [3, 1, 2])) == [9, 1, 4]
    assert await calls.call(4) == 16
    assert squares.groups == [[3, 1, 2], [4]]


async def test_calls_while_a_group_is_handled_are_the_next_group() -> None:
    squares = Squares()
    squares.gate.clear()
    calls = GroupedCalls(squares, 0.0)
    first = asyncio.create_task(calls.call(1))
    while not squares.groups:
        await asyncio.sleep(0)
    rest = [asyncio.create_task(calls.call(number)) for number in range(GROUP + 1)]
    await asyncio.sleep(0)
    squares.gate.set()
    assert await asyncio.gather(first, *rest) == [1, *(number * number for number in range(GROUP + 1))]
    assert [len(each) for each in squares.groups] == [1, GROUP, 1]


async def test_an_error_reaches_each_call_of_its_group_only() -> None:
    calls = GroupedCalls(Squares(), 0.0)
    for result in await asyncio.gather(*map(calls.call, [1, -1]), return_exceptions=True):
        assert isinstance(result, ValueError)
    assert await calls.call(5) == 25


async def test_a_cancelled_call_stays_in_its_group() -> None:
    squares = Squares()
    calls = GroupedCalls(squares, 0.01)
    cancelled = asyncio.create_task(calls.call(1))
    other = asyncio.create_task(calls.call(2))
    await asyncio.sleep(0)
    cancelled.cancel()
    assert await other == 4
    with pytest.raises(asyncio.CancelledError):
        await cancelled
    assert squares.groups == [[1, 2]]
