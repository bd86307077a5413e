"""Runs one batch that this gateway has claimed: validates its lines, requests them within a window, ends its files.

It may be cut off at any moment: the next gateway that claims the batch goes on behind the lines whose results are
stored, and repeats those that had begun with the same idempotency keys.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import Any

import structlog
from starlette.types import ASGIApp

from auth_billing.access.model_access import ALL_MODELS
from auth_billing.access.principal import Principal
from auth_billing.errors import InvalidApiKey, NoSuchRecord, StoreUnavailable
from gateway.batches.input_lines import (
    CheckedLines,
    InputLine,
    LineRefused,
    LineRequest,
    check_lines,
    parse_line,
    read_lines,
    refusal,
)
from gateway.batches.results import BatchResults, LeaseLost, NoSpace
from gateway.errors import GatewayError
from gateway.http.gateway import Gateway
from gateway.http.internal_requests import request_internally
from stored_objects.blobs.blobs import derived_blob_id
from stored_objects.errors import BlobCorrupt, BlobNotFound, StorageQuotaExceeded
from stored_objects.files.files import FOREVER, Purpose
from stored_objects.objects.records import ObjectKind, ObjectPart, StoredObject
from stored_objects.project_documents.batches import Batch, BatchError, BatchState

LEASE = 30.0
"""Seconds without renewal after which another gateway may run a batch."""
RENEWAL_INTERVAL = 2.0
"""Seconds between two renewals of a lease."""
MAX_WINDOW = 256
"""Lines of one batch that are requested at the same time."""
MAX_WINDOW_BYTES = 32 * 2**20
"""Bytes of these requests' bodies together."""
FINISHING_TIME = 24 * 3600.0
"""Seconds after a batch's expiry for which its unfinished output files are kept."""
SPACE_INTERVAL = 60.0
"""Seconds until a gateway runs a batch again whose project has no space for its results."""
_ROOM_INTERVAL = 0.2
"""Seconds until a full queue is looked at again, unless a line ends before."""
_FLUSH_CHECK_INTERVAL = 1.0
_RETRY_INTERVAL = 5.0

_CANCELLED = ("batch_cancelled", "This request was not executed: the batch was cancelled.")
_EXPIRED = ("batch_expired", "This request could not be executed before the completion window expired.")
_KEY_REVOKED = ("invalid_api_key", "This request was not executed: the API key of the batch was revoked.")
_NO_MEMBER = ("no_member", "This request was not executed: the batch's person is no member any more.")

_STOPS = {stop[0]: stop for stop in (_CANCELLED, _EXPIRED, _KEY_REVOKED, _NO_MEMBER)}

_log = structlog.get_logger(__name__)


@dataclass(frozen=True)
class RunContext:
    """Services and settings that all batch runs of one gateway share."""

    gateway: Gateway
    app: ASGIApp
    """The gateway's application, to which lines are sent."""
    runner: str
    """Id of this process in the leases of batches."""
    clock: Callable[[], float] = time.time
    lease: float = LEASE
    renewal_interval: float = RENEWAL_INTERVAL


class BatchRun:
    """One batch whose lease this gateway holds."""

    def __init__(self, context: RunContext, batch: Batch) -> None:
        self._context = context
        self._gateway = context.gateway
        self._batches = context.gateway.documents.batches
        self._batch = batch
        self._principal: Principal | None = None
        self._stop = _STOPS.get(_CANCELLED[0] if batch.state is BatchState.CANCELLING else batch.stopped)
        """Code and message of the lines that do not run any more; `None`: lines run."""
        self._failure: BaseException | None = None
        """Error of a line's task that ends this run, such as a lost lease."""
        self._is_given_up = False
        """Whether the answers of the lines that run are not stored any more."""
        self._gives_way = False
        """Whether no further line begins and none is tried again, so that this run ends soon."""
        self._running: set[asyncio.Task[None]] = set()
        self._running_bytes = 0
        self._ended = asyncio.Event()
        self._results = self._new_results()

    async def run(self) -> None:
        """Work on the batch until it has ended; release its lease when cancelled, so that another gateway goes on.

        While its project has no space for the results, it leaves its place to other batches.

        Raises:
            LeaseLost: another gateway runs the batch now.
        """
        tasks: list[asyncio.Task[None]] = []
        free_at = 0.0
        try:
            await self._check_rights()
            tasks = [asyncio.create_task(each) for each in (self._renew(), self._work(), self._flush_periodically())]
            await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
            for task in tasks:
                if task.done():
                    task.result()
        except NoSpace:
            await self._give_up(tasks[1:])
            free_at = self._context.clock() + SPACE_INTERVAL
        finally:
            tasks += self._running
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)
            with suppress(StoreUnavailable):
                await self._batches.renew(self._batch.id, self._context.runner, free_at)

    def give_way(self) -> None:
        """Have the run end with the lines that run now, of which the results are stored, so that it can go on later."""
        self._gives_way = True
        self._ended.set()

    async def _give_up(self, working: Sequence[asyncio.Task[None]]) -> None:
        """Begin no further line, and wait until those that run have answers, which their idempotency keys repeat."""
        self._is_given_up = True
        for task in working:
            task.cancel()
        await asyncio.gather(*self._running, return_exceptions=True)

    async def _work(self) -> None:
        if self._batch.state is BatchState.VALIDATING:
            await self._validate()
        if self._batch.state in (BatchState.IN_PROGRESS, BatchState.CANCELLING) and self._batch.output_file:
            await self._run_lines()
        if self._batch.state.is_open and not self._gives_way:
            await self._end()

    async def _flush_periodically(self) -> None:
        while True:
            await asyncio.sleep(_FLUSH_CHECK_INTERVAL)
            await self._results.flush_if_due()

    async def _renew(self) -> None:
        lost_at = self._context.clock() + self._context.lease
        while True:
            await asyncio.sleep(self._context.renewal_interval)
            until = self._context.clock() + self._context.lease
            try:
                found = await self._batches.renew(self._batch.id, self._context.runner, until)
                await self._check_rights()
            except StoreUnavailable:
                if self._context.clock() >= lost_at:
                    raise LeaseLost from None
                continue
            if found is None:
                raise LeaseLost
            lost_at = until
            if found.state is BatchState.CANCELLING:
                self._stop = self._stop or _CANCELLED

    async def _check_rights(self) -> None:
        """Read the rights of the API key or person that created the batch; without these no further line runs."""
        batch, accounts = self._batch, self._gateway.authenticator
        try:
            if batch.key_id:
                found = await accounts.principal_of_key(batch.key_id)
            else:
                found = await accounts.principal_of_member(batch.organisation, batch.project, batch.user)
            self._principal = replace(found, in_background=True)
        except InvalidApiKey:
            self._stop = self._stop or _KEY_REVOKED
        except NoSuchRecord:
            self._stop = self._stop or _NO_MEMBER

    async def _lines(self) -> AsyncIterator[InputLine]:
        stored = await self._gateway.objects.find(self._batch.owner, self._batch.input_file)
        async for line in read_lines(self._gateway.objects.stream(stored), self._gateway.settings.max_body_bytes):
            yield line

    async def _validate(self) -> None:
        """Check all lines, then begin with the batch or let it fail."""
        try:
            checked = await check_lines(self._lines(), self._batch.endpoint)
        except (BlobNotFound, BlobCorrupt):
            failure = BatchError("invalid_input_file", "The input file was deleted or can't be read.")
            checked = CheckedLines(failures=[failure])
        if checked.failures:
            await self._change(BatchState.FAILED, failures=checked.failures)
            await self._gateway.objects.release(self._batch.owner, self._batch.id)
            return
        output, errors = await self._begin_file("output"), await self._begin_file("errors")
        await self._change(
            BatchState.IN_PROGRESS,
            total=checked.total,
            model=checked.model or None,
            output_file=output,
            error_file=errors,
        )
        self._results = self._new_results()

    async def _begin_file(self, name: str) -> str:
        """Insert the pending document of an output file, which keeps its parts from the end of the batch on.

        Raises:
            NoSpace: the project's quota is used up.
        """
        objects = self._gateway.objects
        time_left = self._batch.expires - self._context.clock() + FINISHING_TIME
        draft = objects.draft(
            self._batch.owner,
            kind=ObjectKind.FILE,
            size=0,
            id=derived_blob_id(f"{self._batch.id}:{name}"),
            writing_time=time_left,
        )
        purpose, kind = Purpose.BATCH_OUTPUT.value, "output" if name == "output" else "error"
        file_name = f"{self._batch.id}_{kind}.jsonl"
        try:
            return (await objects.begin(replace(draft, name=file_name, purpose=purpose, in_parts=True))).id
        except StorageQuotaExceeded as error:
            raise NoSpace from error

    async def _run_lines(self) -> None:
        try:
            async for line in self._lines():
                if self._results.is_done(line.number):
                    continue
                request = await self._parsed(line)
                if request is None:
                    continue
                encoded = request.encoded()
                await self._wait_for_room(request.model, len(encoded))
                if self._gives_way:
                    break
                if (stop := self._reason_to_stop()) is not None:
                    await self._results.add_error(line.number, request.custom_id, *stop)
                    continue
                self._raise_failure()
                self._running_bytes += len(encoded)
                task = asyncio.create_task(self._run_line(line.number, request, encoded))
                self._running.add(task)
                task.add_done_callback(self._line_ended)
        except (BlobNotFound, BlobCorrupt):
            _log.warning("the input file of a batch is gone", batch=self._batch.id)
            self._stop = self._stop or _CANCELLED
        while self._running:
            await asyncio.wait(set(self._running), return_when=asyncio.FIRST_COMPLETED)
        self._raise_failure()
        await self._results.flush()

    def _raise_failure(self) -> None:
        if self._failure is not None:
            raise self._failure

    async def _parsed(self, line: InputLine) -> LineRequest | None:
        try:
            return await parse_line(line, self._batch.endpoint)
        except LineRefused as error:  # the file has changed since its validation
            await self._results.add_error(line.number, "", error.code, str(error))
            return None

    def _line_ended(self, task: asyncio.Task[None]) -> None:
        self._running.discard(task)
        self._ended.set()
        if not task.cancelled():
            self._failure = self._failure or task.exception()

    async def _wait_for_room(self, model: str, size: int) -> None:
        """Wait until another line may begin: the window is not full, and neither is the queue of its model."""
        while self._reason_to_stop() is None and not self._gives_way and not self._has_room(model, size):
            self._ended.clear()
            with suppress(TimeoutError):
                async with asyncio.timeout(_ROOM_INTERVAL):
                    await self._ended.wait()

    def _has_room(self, model: str, size: int) -> bool:
        running, found = len(self._running), None
        if self._gateway.stopping.is_set():
            return False
        with suppress(GatewayError):
            found = self._gateway.catalogue.find(model, ALL_MODELS)
        capacity = 1 if found is None else max(1, found.effective_capacity)
        if running and self._running_bytes + size > MAX_WINDOW_BYTES:
            return False
        if running >= min(MAX_WINDOW, 2 * capacity) or self._results.is_full:
            return False
        return not running or found is None or self._gateway.queues.waiting(found.name) < capacity

    def _reason_to_stop(self) -> tuple[str, str] | None:
        if self._stop is None and self._context.clock() >= self._batch.expires:
            self._stop = _EXPIRED
        return self._stop

    async def _run_line(self, number: int, request: LineRequest, body: bytes) -> None:
        try:
            answer = refusal(request)
            tries = 0
            while answer is None and not self._is_given_up and not (tries and self._gives_way):
                principal = self._principal
                if (stop := self._reason_to_stop()) is not None or principal is None:
                    await self._results.add_error(number, request.custom_id, *(stop or _KEY_REVOKED))
                    return
                key = f"{self._batch.id}:{number}"
                tried = await request_internally(self._context.app, principal, self._batch.endpoint, key, body)
                tries += 1
                wait = tried.wait_before_retry(tries)
                if wait is None:
                    answer = tried
                else:
                    await asyncio.sleep(wait)
            if answer is None or self._is_given_up:
                return
            succeeded = await self._results.add(number, request.custom_id, answer)
            self._gateway.metrics.batch_lines.labels("completed" if succeeded else "failed").inc()
        finally:
            self._running_bytes -= len(body)

    async def _end(self) -> None:
        """Make the output files available, then end the batch."""
        if self._batch.state is BatchState.IN_PROGRESS:
            await self._change(BatchState.FINALIZING, stopped="" if self._stop is None else self._stop[0])
        progress = self._results.progress
        output = await self._end_file(self._batch.output_file, progress.output)
        errors = await self._end_file(self._batch.error_file, progress.errors)
        await self._gateway.objects.release(self._batch.owner, self._batch.id)
        if self._stop is None and self._batch.state is not BatchState.CANCELLING:
            state = BatchState.COMPLETED
        elif self._stop == _EXPIRED and self._batch.state is not BatchState.CANCELLING:
            state = BatchState.EXPIRED
        else:
            state = BatchState.CANCELLED
        await self._change(state, output_file=output, error_file=errors)

    async def _end_file(self, id: str, parts: list[ObjectPart]) -> str:
        """Make one output file of its parts and return its id; delete it and return "" if it has none."""
        objects = self._gateway.objects
        found = await objects.documents.find(self._batch.owner, id) if id else None
        if found is None:
            return ""
        if not parts:
            await objects.abandon(found)
            return ""
        lifetime = FOREVER if self._batch.output_lifetime is None else self._batch.output_lifetime
        ended = await objects.join(found, parts, lifetime=lifetime)
        await self._delete_unlisted(ended)
        return ended.id

    async def _delete_unlisted(self, ended: StoredObject) -> None:
        """Delete parts whose gateway died before it stored the progress; their lines were repeated."""
        listed = {part.id for part in ended.parts}
        for part in await self._gateway.objects.documents.parts_of(ended.owner, ended.id):
            if part.id not in listed:
                with suppress(BlobNotFound):
                    await self._gateway.objects.delete(part.id, ended.owner)

    async def _change(self, state: BatchState, **changes: Any) -> None:
        """Set the batch's state, unless it was cancelled meanwhile, and other fields of it.

        Raises:
            LeaseLost: another gateway runs the batch now.
        """
        fields: Mapping[str, Any] = {**changes, "state": state, f"times.{state.value}": self._context.clock()}
        before = self._batch.state
        if not await self._repeated_change(before, fields):
            found = await self._batches.renew(
                self._batch.id, self._context.runner, self._context.clock() + self._context.lease
            )
            if found is None or found.state is not BatchState.CANCELLING:
                raise LeaseLost
            self._stop = self._stop or _CANCELLED
            kept: dict[str, Any] = {name: value for name, value in changes.items() if name != "stopped"}
            if not state.is_open:
                kept = dict(fields)
            if kept and not await self._repeated_change(BatchState.CANCELLING, kept):
                raise LeaseLost
            state = BatchState.CANCELLING if state.is_open else state
        self._batch = replace(self._batch, **changes, state=state)

    async def _repeated_change(self, state: BatchState, fields: Mapping[str, Any]) -> bool:
        while True:
            try:
                return await self._batches.change(self._batch.id, self._context.runner, state, fields)
            except StoreUnavailable:
                await asyncio.sleep(_RETRY_INTERVAL)

    def _new_results(self) -> BatchResults:
        return BatchResults(
            self._gateway.objects,
            self._batches,
            self._batch,
            self._context.runner,
            lambda: max(0.0, self._batch.expires - self._context.clock()) + FINISHING_TIME,
        )
