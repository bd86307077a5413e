"""One run of a background response in the gateway that writes it, and the writer of all runs' logs."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import structlog

from auth_billing.errors import RecordRefused, StoreUnavailable
from gateway.answers.responses.drawn_images import DrawnImages
from gateway.answers.responses.events import ErrorOf, ResponseEvents
from gateway.answers.responses.output import ResponseOutput
from gateway.answers.responses.response_object import ResponseObject, response_usage
from gateway.answers.responses.run_log import Entry, decoded, encoded, group_bytes
from gateway.errors import ClientDisconnected
from gateway.jobs.generation import Generation
from gateway.jobs.keyed_billing import KeyedBilling
from gateway.openai.responses.tools import FILE_SEARCH, IMAGE_GENERATION
from router.messages import Usage, UsagePart
from router.producer.errors import GenerationError
from runtime.changes import Changes
from runtime.retry import Backoff
from stored_objects.images.results import BlobAddress
from stored_objects.objects.objects import StoredObjects
from stored_objects.project_documents.quota import DocumentQuota
from stored_objects.project_documents.records import ProjectDocument
from stored_objects.project_documents.response_runs import LogGroup, ResponseRuns
from stored_objects.responses.responses import StoredResponse, new_document

WRITE_INTERVAL = 0.05
"""Seconds between two writes of the runs' output to their logs."""

_log = structlog.get_logger(__name__)


def events_of(stored: StoredResponse, address: BlobAddress, objects: StoredObjects) -> ResponseEvents:
    """Return the events of a stored background response from its beginning; equal deltas give equal events."""
    response = ResponseObject.begun(stored.response)
    tools = stored.response["tools"]
    output = ResponseOutput(
        stored.id,
        address,
        first_item=len(stored.items),
        custom_tools=frozenset(tool["name"] for tool in tools if tool["type"] == "custom"),
        summarises=stored.response["reasoning"]["summary"] is not None,
        images=DrawnImages(objects) if any(tool["type"] == IMAGE_GENERATION for tool in tools) else None,
        searches=any(tool["type"] == FILE_SEARCH for tool in tools),
    )
    return ResponseEvents(response, output)


class BackgroundRun:
    """The run of one response while this process holds it: its output, and what of it is in the log."""

    def __init__(
        self, document: ProjectDocument, stored: StoredResponse, events: ResponseEvents, log: LogWriter
    ) -> None:
        """`events`: those of `stored` from its beginning."""
        self.document = document
        self.stored = stored
        self.recovered: list[Entry] = []
        """Entries that the log had when this process claimed the run."""
        self.pending: list[Entry] = []
        """Entries that are not in the log yet."""
        self.unconfirmed = 0
        """Number of pending entries in a write with unknown outcome; they are written again as the same group."""
        self.logged: list[list[Entry]] = []
        """Groups of the log."""
        self.log_bytes = 0
        """Bytes of the log that count in the project's quota once the response has ended."""
        self.lost = False
        """Whether another process has the run, or the response was deleted."""
        self.ended = False
        """Whether the ended response is stored."""
        self.passages: dict[str, int] | None = None
        """Budget of the passages in the prompt, which the ended response shows; `None`: files were not searched."""
        self.changes = Changes()
        """Growth of the log and the end of the run, which readers in this process wait for."""
        self._events = events
        self._log = log
        self._usage: dict[str, Any] = {}
        self._is_stored = False
        self._generation: Generation | None = None
        self._abandoned: GenerationError | None = None

    @property
    def id(self) -> str:
        """Id of the response."""
        return self.document.id

    @property
    def output(self) -> ResponseOutput:
        """Output of the response until now."""
        return self._events.output

    def begin(self) -> None:
        """Have the output written to the log from now on, as the response is stored."""
        self._is_stored = True
        if self.pending:
            self._log.add(self)

    async def add(self, entries: Sequence[Entry]) -> None:
        """Add entries to the output, to be written to the log."""
        await self._events.arrived(entries)  # readers make the events again from the log
        self.pending += entries
        if self.pending and self._is_stored:
            self._log.add(self)

    def used(self, usage: Usage, parts: Sequence[UsagePart]) -> None:
        """Record the usage that the response reports."""
        self._usage = response_usage(usage, parts)

    def lose(self) -> None:
        """Stop generating because another process has the run, or the response was deleted."""
        self.lost = True
        self.abandon(ClientDisconnected())

    def generate(self, generation: Generation) -> None:
        """Set the generation that runs now, which ends at once if the run was to stop before."""
        self._generation = generation
        if self._abandoned is not None:
            generation.abandon(self._abandoned)

    def abandon(self, error: GenerationError) -> None:
        """Stop generating; the run ends with `error`."""
        self._abandoned = error
        if self._generation is not None:
            self._generation.abandon(error)

    async def recover(self, runs: ResponseRuns) -> None:
        """Seal the log against its earlier writer, and read the entries that it has."""
        self.begin()
        while True:
            groups = await runs.log(self.document.owner, self.id, len(self.logged))
            self.logged += map(decoded, groups)
            self.log_bytes += sum(map(group_bytes, groups))
            seal = self.group([])
            if (await runs.append([seal]))[0]:
                self.logged.append([])
                self.log_bytes += group_bytes(seal.content)
                break
        self.recovered = [entry for group in self.logged for entry in group]
        await self._events.arrived(self.recovered)

    def group(self, entries: Sequence[Entry]) -> LogGroup:
        """Return the next group of the log."""
        of = self.document
        return LogGroup(self.id, of.owner, len(self.logged), encoded(entries), of.created, of.expires)

    async def flushed(self) -> None:
        """Wait until all output is in the log, or the run is lost."""
        while self.pending and not self.lost:
            await self.changes.wait(self.changes.version, 1.0)

    async def store_end(
        self,
        runs: ResponseRuns,
        runner: str,
        keyed: KeyedBilling,
        error: Exception | None,
        error_of: ErrorOf,
        *,
        quota: DocumentQuota,
    ) -> bool:
        """Store the ended response with the receipts of its job, once that is stored; return false if the run is lost.

        Its output is paid for, so it is counted beyond the project's quota too.
        """
        await self.flushed()
        backoff = Backoff()
        response = self._ended(error, error_of)
        counted, is_certain = self.document.size, True
        while not self.lost:
            content = (await new_document(replace(self.stored, response=response))).content
            size = replace(self.document, content=content).size + self.log_bytes
            await quota.release(self.document.owner, counted - size)
            counted = size
            try:
                await keyed.wait_for_jobs()
                self.ended = await runs.finish(self.id, runner, content, size, keyed.receipts)
                self.lost = not self.ended
                if self.lost and is_certain:
                    await quota.release(self.document.owner, size - self.document.size)
                return self.ended
            except RecordRefused:
                response = {**response, "output": [], "steps": []}
            except StoreUnavailable as failure:
                _log.warning("the end of a response was not stored, retrying", response=self.id, reason=str(failure))
                is_certain = False
                await backoff.sleep()
        return False

    def _ended(self, error: Exception | None, error_of: ErrorOf) -> dict[str, Any]:
        if error is None:
            ended = self._events.finished(self._usage, int(time.time()))
            return ended if self.passages is None else {**ended, "passages": self.passages}
        for _ in self._events.break_off():
            pass
        if isinstance(error, ClientDisconnected):
            return self._events.cancelled(self._usage or None)
        return self._events.failed(error_of(error))


class LogWriter:
    """Writes the output of all runs of one process to their logs, one write at a time."""

    def __init__(self, runs: ResponseRuns) -> None:
        self._runs = runs
        self._waiting: dict[str, BackgroundRun] = {}
        self._woken = asyncio.Event()

    def add(self, run: BackgroundRun) -> None:
        """Have the pending output of `run` written soon."""
        self._waiting[run.id] = run
        self._woken.set()

    async def run(self) -> None:
        """Write pending output at intervals until cancelled; while the store does not answer, retry."""
        while True:
            await self._woken.wait()
            self._woken.clear()
            waiting, self._waiting = self._waiting, {}
            await self._write([run for run in waiting.values() if run.pending and not run.lost])
            await asyncio.sleep(WRITE_INTERVAL)

    async def _write(self, runs: Sequence[BackgroundRun]) -> None:
        if not runs:
            return
        counts = [run.unconfirmed or len(run.pending) for run in runs]
        groups = [run.group(run.pending[:count]) for run, count in zip(runs, counts, strict=True)]
        try:
            added = await self._runs.append(groups)
        except StoreUnavailable as error:
            _log.warning("output of background responses not stored, retrying", reason=str(error))
            added = [False] * len(groups)
        for run, count, group, is_new in zip(runs, counts, groups, added, strict=True):
            is_stored = is_new or await self._is_stored(group)
            run.unconfirmed = count if is_stored is None else 0
            if is_stored is None:
                self.add(run)
            elif is_stored:
                run.logged.append(run.pending[:count])
                run.log_bytes += group_bytes(group.content)
                del run.pending[:count]
                if run.pending:
                    self.add(run)
            else:
                run.lose()
            run.changes.notify()

    async def _is_stored(self, group: LogGroup) -> bool | None:
        """Return whether a group is in its log, false if another process's is; `None`: neither is, or not known."""
        try:
            found = await self._runs.log(group.owner, group.response, group.number)
        except StoreUnavailable:
            return None
        return found[0] == group.content if found else None
