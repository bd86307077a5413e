"""Readers of a background response: from the run in their process or from the log of another one, with equal events."""

from __future__ import annotations

import asyncio
import json
from typing import Any, cast

import pytest

from gateway.answers.responses import background_reader as module
from gateway.answers.responses import log_polls
from gateway.answers.responses.background import BackgroundResponses
from gateway.answers.responses.background_reader import BackgroundReader
from gateway.answers.responses.background_run import BackgroundRun
from gateway.answers.responses.log_polls import LogPolls
from gateway.errors import ClientDisconnected
from gateway.jobs.keyed_billing import KeyedBilling
from stored_objects.project_documents.response_runs import LogGroup
from tests.gateway.answers.responses.client import ID, EventClient, deltas
from tests.gateway.answers.responses.runs import OWNER, RUNNER, StoredRun, stored_events
from tests.gateway.answers.responses.test_background_run import Generated, error_of
from tests.gateway.conftest import eventually

ANSWER = deltas({"reasoning": "Hm"}, {"text": "a"}, {"text": "b"})


class Process:
    """The background responses of one process, which has the run or not."""

    def __init__(self, stored: StoredRun, run: BackgroundRun | None = None) -> None:
        self.runs = stored.runs
        self.polls = LogPolls()
        self.cancelled: list[str] = []
        self._run = run

    def running(self, response_id: str) -> BackgroundRun | None:
        return self._run if response_id == ID else None

    def cancel(self, response_id: str) -> None:
        self.cancelled.append(response_id)

    def reader(self, stored: StoredRun) -> BackgroundReader:
        return BackgroundReader(cast(BackgroundResponses, self), stored.responses, OWNER, stored_events)


@pytest.fixture(autouse=True)
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(log_polls, "POLL_INTERVAL", 0.001)
    monkeypatch.setattr(module, "CANCEL_POLL_INTERVAL", 0.001)


@pytest.fixture
async def stored() -> StoredRun:
    return await StoredRun().begin()


async def write(stored: StoredRun, run: BackgroundRun, *groups: int) -> None:
    """Write groups of so many of the answer's deltas to the log."""
    start = sum(map(len, run.logged))
    for size in groups:
        group: LogGroup = run.group(ANSWER[start : start + size])
        assert await stored.runs.append([group]) == [True]
        await run.add(ANSWER[start : start + size])
        run.logged.append([*ANSWER[start : start + size]])
        run.pending.clear()
        run.changes.notify()
        start += size


async def end(stored: StoredRun, run: BackgroundRun, error: Exception | None = None) -> None:
    run.used(*Generated().used)
    assert await run.store_end(stored.runs, RUNNER, KeyedBilling(ID), error, error_of, quota=stored.quota)
    run.changes.notify()


async def read(reader: BackgroundReader, stored: StoredRun, after: int | None = None) -> list[dict[str, Any]]:
    """All events of a stream, which has its end."""
    frames = [frame async for frame in reader.frames(stored.stored, after, asyncio.Event())]
    *found, done, last = b"".join(frames).decode("ascii").split("\n\n")
    assert (done, last) == ("data: [DONE]", "")
    return [json.loads(frame.partition("data: ")[2]) for frame in found]


@pytest.mark.parametrize("here", [True, False])
async def test_the_output_until_now_is_what_is_in_the_log(stored: StoredRun, here: bool) -> None:
    run = stored.run()
    reader = Process(stored, run if here else None).reader(stored)
    assert (await reader.current(stored.stored))["status"] == "queued"
    await write(stored, run, 2)
    await run.add(ANSWER[2:])
    current = await reader.current(stored.stored)
    assert current["status"] == "in_progress"
    assert [item["content"] for item in current["output"]] == [[{"type": "reasoning_text", "text": "Hm"}], []]
    run.pending.clear()
    await end(stored, run)
    ended = await stored.responses.find(OWNER, ID)
    assert await reader.current(ended) == ended.response


@pytest.mark.parametrize("after", [None, 0, 4, 9])
async def test_events_are_equal_here_and_elsewhere_however_the_log_was_grouped(
    stored: StoredRun, after: int | None
) -> None:
    run = stored.run()
    readers = [Process(stored, each).reader(stored) for each in (run, None)]
    reading = [asyncio.create_task(read(each, stored, after)) for each in readers]
    for size in (0, 1, 2):
        await write(stored, run, size)
        await asyncio.sleep(0.005)
    await end(stored, run)
    late = await read(readers[1], stored)
    client = EventClient().read(late)
    assert client.names[:3] == ["created", "queued", "in_progress"]
    assert (client.names[-1], client.response) == ("completed", await stored.response())
    for each in await asyncio.gather(*reading):
        assert each == late[0 if after is None else after + 1 :]


async def test_the_end_of_a_broken_answer_ends_its_item_first(stored: StoredRun) -> None:
    run = stored.run()
    await write(stored, run, 2)
    await end(stored, run, ClientDisconnected())
    client = EventClient().read(await read(Process(stored).reader(stored), stored))
    assert client.names[-2:] == ["output_item.done", "cancelled"]
    assert client.response == await stored.response()


async def test_a_response_that_ends_without_output_was_in_progress_before(stored: StoredRun) -> None:
    await end(stored, stored.run(), ClientDisconnected())
    client = EventClient().read(await read(Process(stored).reader(stored), stored))
    assert client.names == ["created", "queued", "in_progress", "cancelled"]


async def test_a_reader_stops_with_its_gateway(stored: StoredRun) -> None:
    stopping = asyncio.Event()
    frames = Process(stored).reader(stored).frames(stored.stored, None, stopping)
    assert b"response.queued" in await anext(frames)
    stopping.set()
    assert [frame async for frame in frames] == []


async def test_cancel_waits_for_the_end_of_a_running_response(stored: StoredRun) -> None:
    run = stored.run()
    process = Process(stored, run)
    cancelling = asyncio.create_task(process.reader(stored).cancel(ID))
    await eventually(lambda: process.cancelled == [ID])
    assert stored.runs.runs[ID].cancelled
    assert not cancelling.done()
    await end(stored, run, ClientDisconnected())
    await cancelling
    await process.reader(stored).cancel(ID)
    assert process.cancelled == [ID]
