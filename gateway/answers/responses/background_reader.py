"""Reads the events of a background response: from the run in this process, else from its log in the store."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Iterable
from typing import Any

from gateway.answers.event_frames import DONE
from gateway.answers.responses.background import BackgroundResponses
from gateway.answers.responses.events import ResponseEvents, event_frame
from gateway.answers.responses.output import Event
from gateway.answers.responses.run_log import Entry, decoded
from gateway.openai.responses.response import OPEN_STATUSES
from stored_objects.project_documents.records import ProjectOwner
from stored_objects.responses.responses import StoredResponse, StoredResponses

CANCEL_POLL_INTERVAL = 0.1
"""Seconds between two reads of whether a cancelled response has ended."""
CHANGE_TIMEOUT = 1.0
"""Longest wait in seconds for a change of a run in this process."""
END_TIMEOUT = 15.0
"""Longest wait in seconds for the end of a cancelled response."""


class BackgroundReader:
    """Reads the background responses of one owner."""

    def __init__(
        self,
        background: BackgroundResponses,
        responses: StoredResponses,
        owner: ProjectOwner,
        events: Callable[[StoredResponse], ResponseEvents],
    ) -> None:
        """`events` returns the events of a stored response from its beginning."""
        self._background = background
        self._responses = responses
        self._owner = owner
        self._events = events

    async def current(self, stored: StoredResponse) -> dict[str, Any]:
        """Return a stored response with its output until now."""
        if stored.response["status"] not in OPEN_STATUSES:
            return stored.response
        events, groups = self._events(stored), await self._log(stored.id, 0)
        await events.arrived([entry for group in groups for entry in group])
        return events.unfinished("in_progress" if groups else "queued")

    async def frames(
        self, stored: StoredResponse, starting_after: int | None, stopping: asyncio.Event
    ) -> AsyncIterator[bytes]:
        """Yield the event frames of a response with numbers above `starting_after`, until its end or `stopping`."""
        events, number = self._events(stored), 0
        after = -1 if starting_after is None else starting_after
        yield _encoded(events.queue(), after)
        while not stopping.is_set():
            run = self._background.running(stored.id)
            version = 0 if run is None else run.changes.version
            groups = await self._log(stored.id, number)
            ended = not groups and not await self._is_running(stored.id)
            if ended:
                groups = await self._log(stored.id, number)  # what was added since
            if (groups or ended) and not number:
                yield _encoded(events.progress(), after)
            number += len(groups)
            yield _encoded(await events.arrived([entry for group in groups for entry in group]), after)
            if ended:
                final = (await self._responses.find(self._owner, stored.id)).response
                yield _encoded(events.break_off(), after) + _encoded(events.end(final), after) + DONE.encode()
                return
            if run is None:
                await self._background.polls.wait(self._owner.organisation)
            elif not groups:
                await run.changes.wait(version, CHANGE_TIMEOUT)

    async def cancel(self, response_id: str) -> None:
        """Cancel a response, and wait for its end; does nothing if it has ended."""
        if not await self._background.runs.cancel(self._owner, response_id):
            return
        self._background.cancel(response_id)
        async with asyncio.timeout(END_TIMEOUT):
            while await self._is_running(response_id):  # noqa: ASYNC110 - another process may write it
                await asyncio.sleep(CANCEL_POLL_INTERVAL)

    async def _is_running(self, response_id: str) -> bool:
        run = self._background.running(response_id)
        if run is not None and not run.lost:
            return not run.ended
        return bool(await self._background.runs.is_running(self._owner, response_id))

    async def _log(self, response_id: str, start: int) -> list[list[Entry]]:
        run = self._background.running(response_id)
        if run is not None and not run.lost and run.logged:
            return run.logged[start:]
        return [decoded(group) for group in await self._background.runs.log(self._owner, response_id, start)]


def _encoded(events: Iterable[Event], after: int) -> bytes:
    return "".join(event_frame(event) for event in events if event["sequence_number"] > after).encode("ascii")
