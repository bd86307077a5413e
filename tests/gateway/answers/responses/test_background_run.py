"""A run's log and its end: what readers see is stored first, and only by the process that has the run."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager, suppress
from functools import partial
from typing import Any, cast

import pytest

from auth_billing.errors import RecordRefused, StoreUnavailable
from gateway.answers.responses import background_run as module
from gateway.answers.responses.background_run import BackgroundRun, LogWriter
from gateway.answers.responses.run_log import Entry, decoded, encoded
from gateway.errors import ClientDisconnected
from gateway.jobs.generation import Generation
from gateway.jobs.keyed_billing import KeyedBilling
from router.messages import Delta, Receipt, Usage
from router.producer.errors import DeadlinePassed
from stored_objects.project_documents.response_runs import LogGroup
from tests.fakes.project_documents import DictResponseRuns
from tests.gateway.answers.responses.client import ID, SHOUT, EventClient, call, deltas
from tests.gateway.answers.responses.runs import OWNER, RUNNER, StoredRun, stored_events

ANSWER = deltas({"text": "a"}, {"text": "b"}, {"text": "c"})


class Generated:
    """A generation that notes why it was abandoned, and what it has used."""

    def __init__(self, *, finished: bool = True) -> None:
        self.used = Usage(prompt_tokens=5, completion_tokens=3 if finished else 1), ()
        self.abandoned: list[Exception] = []

    def abandon(self, error: Exception) -> None:
        self.abandoned.append(error)

    @property
    def generation(self) -> Generation:
        return cast(Generation, self)


def error_of(error: Exception) -> dict[str, Any]:
    return {"code": "server_error", "message": type(error).__name__}


@asynccontextmanager
async def writing(log: LogWriter) -> AsyncIterator[None]:
    task = asyncio.create_task(log.run())
    yield
    task.cancel()
    with suppress(asyncio.CancelledError):
        await task


@pytest.fixture(autouse=True)
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "WRITE_INTERVAL", 0.0)


async def logged(stored: StoredRun) -> list[Delta]:
    return of_deltas([each for group in await stored.runs.log(OWNER, ID, 0) for each in decoded(group)])


def of_deltas(entries: Sequence[Entry]) -> list[Delta]:
    assert all(isinstance(each, Delta) for each in entries)
    return [each for each in entries if isinstance(each, Delta)]


def test_a_group_is_decoded_as_it_was_without_the_ids_of_an_attempt() -> None:
    (one,) = of_deltas(decoded(encoded([ANSWER[0]])))
    assert (one.job_id, one.attempt_id) == ("", "")
    assert (one.text, one.start, one.token_ids) == (ANSWER[0].text, ANSWER[0].start, ANSWER[0].token_ids)


async def test_the_events_of_a_stored_response_follow_from_its_request() -> None:
    stored = await StoredRun().begin(tools=[SHOUT], reasoning={"summary": "auto"})
    answer = deltas({"reasoning": "Hm"}, call(0, '{"input": "hey"}', name="shout"))
    client = EventClient().read([*(events := stored_events(stored.stored)).queue(), *events.take(answer)])
    reasoning, custom = client.output
    assert (reasoning["summary"][0]["text"], custom["input"]) == ("Hm", "hey")
    assert reasoning["id"] == f"rs_{7:032x}0001"  # after the item of the input


async def test_output_is_in_the_log_before_readers_see_it() -> None:
    stored = await StoredRun().begin()
    run = stored.run()
    await run.add(ANSWER[:2])
    assert (run.logged, await logged(stored)) == ([], [])
    version = run.changes.version
    async with writing(stored.log):
        await run.changes.wait(version, 30.0)
        assert [each.text for group in run.logged for each in of_deltas(group)] == ["a", "b"]
        assert [each.text for each in await logged(stored)] == ["a", "b"]
        await run.add(ANSWER[2:])
        await run.flushed()
    assert run.pending == []
    assert [[each.text for each in of_deltas(group)] for group in run.logged] == [["a", "b"], ["c"]]
    assert [each.text for each in await logged(stored)] == ["a", "b", "c"]


async def test_a_process_that_has_lost_the_run_adds_nothing_to_the_log() -> None:
    stored = await StoredRun().begin()
    run, successor = stored.run(), stored.run()
    generated = Generated()
    run.generate(generated.generation)
    await successor.recover(stored.runs)
    await run.add(ANSWER)
    async with writing(stored.log):
        await run.flushed()
    assert run.lost
    assert [type(each) for each in generated.abandoned] == [ClientDisconnected]
    assert await logged(stored) == []
    assert not await run.store_end(stored.runs, RUNNER, KeyedBilling(ID), None, error_of, quota=stored.quota)
    assert (await stored.response())["status"] == "queued"


async def test_a_successor_continues_after_the_log() -> None:
    stored = await StoredRun().begin()
    first = stored.run()
    await first.add(ANSWER[:2])
    async with writing(stored.log):
        await first.flushed()
        successor = stored.run()
        await successor.recover(stored.runs)
        assert [each.text for each in of_deltas(successor.recovered)] == ["a", "b"]
        await successor.add(ANSWER[2:])
        successor.used(*Generated().used)
        assert await successor.store_end(stored.runs, RUNNER, KeyedBilling(ID), None, error_of, quota=stored.quota)
    assert [each.text for each in await logged(stored)] == ["a", "b", "c"]
    ended = await stored.response()
    assert (ended["status"], ended["output"][0]["content"][0]["text"]) == ("completed", "abc")


class FlakyRuns(DictResponseRuns):
    """Runs whose next writes fail, after or before they are stored."""

    def __init__(self, runs: DictResponseRuns) -> None:
        super().__init__(runs.responses)
        self.runs = runs.runs
        self.failures: list[Exception] = []
        self.stores = False
        """Whether a write that fails is stored all the same."""
        self.is_down = False
        """Whether the log can't be read the next time."""
        self.on_failure: Callable[[], Awaitable[object]] = partial(asyncio.sleep, 0)

    async def append(self, groups: Sequence[LogGroup]) -> list[bool]:
        stored = await super().append(groups) if self.stores or not self.failures else []
        await self._fail()
        return stored

    async def log(self, owner: Any, response: str, start: int) -> list[bytes]:
        if self.is_down:
            self.is_down = False
            raise StoreUnavailable("away")
        return await super().log(owner, response, start)

    async def finish(self, response: str, runner: str, content: bytes, size: int, receipts: Sequence[Receipt]) -> bool:
        await self._fail()
        return await super().finish(response, runner, content, size, receipts)

    async def _fail(self) -> None:
        if self.failures:
            await self.on_failure()
            raise self.failures.pop(0)


@pytest.mark.parametrize("is_down", [False, True])
@pytest.mark.parametrize("stores", [False, True])
async def test_a_write_with_unknown_outcome_is_in_the_log_once(stores: bool, is_down: bool) -> None:
    stored = await StoredRun().begin()
    stored.runs = runs = FlakyRuns(stored.runs)
    runs.failures, runs.stores, runs.is_down = [StoreUnavailable("away")], stores, is_down
    log = LogWriter(runs)
    run = BackgroundRun(stored.document, stored.stored, stored_events(stored.stored), log)
    run.begin()
    await run.add(ANSWER[:1])
    runs.on_failure = lambda: run.add(ANSWER[1:2])
    async with writing(log):
        await run.flushed()
    assert not run.lost
    assert [each.text for each in await logged(stored)] == ["a", "b"]
    assert [each.text for group in run.logged for each in of_deltas(group)] == ["a", "b"]


@pytest.mark.parametrize(
    ("error", "finished", "status", "tokens"),
    [
        (None, True, "completed", 3),
        (ClientDisconnected(), False, "cancelled", 1),
        (DeadlinePassed(), False, "failed", None),
    ],
)
async def test_the_end_is_stored_with_its_reason(
    error: Exception | None, finished: bool, status: str, tokens: int | None
) -> None:
    stored = await StoredRun().begin()
    run = stored.run()
    await run.add(ANSWER if finished else ANSWER[:1])
    run.used(*Generated(finished=finished).used)
    async with writing(stored.log):
        assert await run.store_end(stored.runs, RUNNER, KeyedBilling(ID), error, error_of, quota=stored.quota)
    assert run.ended
    ended = await stored.response()
    assert (ended["status"], ended.get("usage", {}).get("output_tokens")) == (status, tokens)
    assert ended["output"][0]["status"] == ("completed" if finished else "incomplete")
    assert ended["error"] == (error_of(error) if status == "failed" and error is not None else None)


async def test_the_end_is_tried_again_and_without_output_if_it_is_too_large() -> None:
    stored = await StoredRun().begin()
    stored.runs = runs = FlakyRuns(stored.runs)
    run = stored.run()
    run.used(*Generated().used)
    runs.failures = [StoreUnavailable("away"), RecordRefused("too large")]
    assert await run.store_end(runs, RUNNER, KeyedBilling(ID), None, error_of, quota=stored.quota)
    ended = await stored.response()
    assert (ended["status"], ended["output"], ended["usage"]["output_tokens"]) == ("completed", [], 3)


async def test_the_end_is_stored_by_the_holder_only() -> None:
    stored = await StoredRun().begin()
    run = stored.run()
    stored.hold("gateway-2")
    assert not await run.store_end(stored.runs, RUNNER, KeyedBilling(ID), None, error_of, quota=stored.quota)
    assert (run.ended, run.lost) == (False, True)
    assert (await stored.response())["status"] == "queued"


async def test_a_run_that_was_to_stop_before_its_generation_stops_it_at_once() -> None:
    run = (await StoredRun().begin()).run()
    error = ClientDisconnected()
    run.abandon(error)
    generated = Generated()
    run.generate(generated.generation)
    assert generated.abandoned == [error]
