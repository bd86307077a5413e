"""Tasks that wait for a change of an object are woken by it, and do not miss one that came before they waited."""

from __future__ import annotations

import asyncio

from runtime.changes import Changes


async def test_all_waiting_tasks_are_woken_by_a_change() -> None:
    changes = Changes()
    waiting = [asyncio.create_task(changes.wait(0, 60.0)) for _ in range(2)]
    await asyncio.sleep(0)
    assert not any(task.done() for task in waiting)
    changes.notify()
    await asyncio.gather(*waiting)
    assert changes.version == 1


async def test_a_change_before_the_wait_ends_it_at_once() -> None:
    changes = Changes()
    changes.notify()
    waiting = asyncio.create_task(changes.wait(0, 60.0))
    await asyncio.sleep(0)
    assert waiting.done()


async def test_a_wait_without_a_change_ends_after_its_time() -> None:
    changes = Changes()
    await changes.wait(0, 0.0)
    assert changes.version == 0
