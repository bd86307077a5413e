"""Groups calls that are made at about the same time, so that one write serves several of them."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from contextvars import Context
from dataclasses import dataclass
from typing import Generic, TypeVar

Item = TypeVar("Item")
Result = TypeVar("Result")

GROUP = 64
"""Most calls in a group."""


@dataclass(frozen=True)
class _Pending(Generic[Item, Result]):
    item: Item
    result: asyncio.Future[Result]


class GroupedCalls(Generic[Item, Result]):
    """Passes the items of calls within `delay` seconds to `handle` together, which returns a result for each in order.

    Calls that arrive while `handle` runs are the next group. Use it on one event loop.
    """

    def __init__(self, handle: Callable[[Sequence[Item]], Awaitable[Sequence[Result]]], delay: float) -> None:
        self._handle = handle
        self._delay = delay
        self._pending: list[_Pending[Item, Result]] = []
        self._task: asyncio.Task[None] | None = None

    async def call(self, item: Item) -> Result:
        """Add an item to the next group; return its result when the group was handled.

        A cancelled call does not take its item out of the group.

        Raises:
            Exception: what `handle` raised for the group.
        """
        pending: _Pending[Item, Result] = _Pending(item, asyncio.get_running_loop().create_future())
        self._pending.append(pending)
        if self._task is None:
            self._task = asyncio.create_task(self._run(), context=Context())  # a group is not a part of one call
        return await asyncio.shield(pending.result)

    async def _run(self) -> None:
        while self._pending:
            await asyncio.sleep(self._delay)
            group, self._pending = self._pending[:GROUP], self._pending[GROUP:]
            try:
                results = await self._handle([each.item for each in group])
            except Exception as error:  # noqa: BLE001 - every call of the group must get the error
                for each in group:
                    each.result.set_exception(error)
                    each.result.exception()  # marks it as retrieved: the call may have been cancelled
            else:
                for each, result in zip(group, results, strict=True):
                    each.result.set_result(result)
        self._task = None
