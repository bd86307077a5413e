"""Collects the results of a batch's lines, and stores them as parts of its output files together with its progress.

Results are stored in order of arrival, a mebibyte or some seconds together. Until the progress is stored too, a line
counts as not done: a gateway that repeats it gets its answer again (`gateway/http/internal_requests.py`).
"""

from __future__ import annotations

import asyncio
import hashlib
import json
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from dataclasses import dataclass, field, replace
from typing import Any, TypeVar

import structlog

from auth_billing.errors import StoreUnavailable
from gateway.http.internal_requests import InternalAnswer
from stored_objects.errors import BlobsUnavailable, StorageQuotaExceeded
from stored_objects.objects.objects import StoredObjects
from stored_objects.objects.records import ObjectKind, ObjectPart
from stored_objects.project_documents.batches import Batch, BatchProgress, BatchStore

FLUSH_BYTES = 2**20
"""Bytes of results that are stored together."""
MAX_UNSTORED_BYTES = 8 * 2**20
"""Bytes of results that may wait to be stored before no further lines begin."""
MIN_FLUSH_INTERVAL, INTERVAL_PER_PART = 2.0, 0.125
"""Seconds between two parts, and by how much each part lengthens them, so that a day of slow lines has few parts."""
RETRY_INTERVAL = 5.0
"""Seconds until results that could not be stored are tried again: the store is away, or the quota is used up."""
MAX_SPACE_TRIES = 3
"""Times that results are tried to be stored while the quota is used up."""

ResultT = TypeVar("ResultT")

_log = structlog.get_logger(__name__)


class LeaseLost(Exception):
    """Raised when another gateway has the lease of a batch that this one runs."""


class NoSpace(Exception):
    """Raised when the quota of a batch's project is used up, so that its results can't be stored."""


@dataclass
class _Unstored:
    """Results that are not stored yet."""

    output: bytearray = field(default_factory=bytearray)
    errors: bytearray = field(default_factory=bytearray)
    numbers: list[int] = field(default_factory=list)
    completed: int = 0
    failed: int = 0
    tokens: dict[str, int] = field(default_factory=dict)

    @property
    def size(self) -> int:
        return len(self.output) + len(self.errors)


class BatchResults:
    """Results of one batch that this gateway runs as `runner`."""

    def __init__(
        self, objects: StoredObjects, batches: BatchStore, batch: Batch, runner: str, lifetime: Callable[[], float]
    ) -> None:
        """`lifetime`: returns the seconds for which a part is kept unless a file keeps it."""
        self._objects = objects
        self._batches = batches
        self._batch = batch
        self._runner = runner
        self._lifetime = lifetime
        self.progress = batch.progress
        self._done = set(batch.progress.done)
        self._unstored = _Unstored()
        self._flushed_at = time.monotonic()
        self._flushing = asyncio.Lock()

    def is_done(self, number: int) -> bool:
        """Return whether the result of the line with this number is stored."""
        return number <= self.progress.done_to or number in self._done

    @property
    def is_full(self) -> bool:
        """Whether so many results wait to be stored that no further line should begin."""
        return self._unstored.size > MAX_UNSTORED_BYTES

    async def add(self, number: int, custom_id: str, answer: InternalAnswer) -> bool:
        """Add the response to one line; return whether the line succeeded. Raises as `flush` does."""
        body = await asyncio.to_thread(_decoded, answer.body) if len(answer.body) > 2**16 else _decoded(answer.body)
        succeeded = answer.status == 200
        response = {"status_code": answer.status, "request_id": answer.request_id, "body": body}
        self._append(number, custom_id, response, None, succeeded=succeeded)
        if succeeded:
            _count(self._unstored.tokens, body)
        if self._is_due():
            await self.flush()
        return succeeded

    async def add_error(self, number: int, custom_id: str, code: str, message: str) -> None:
        """Add a line that was not requested, with the reason. Raises as `flush` does."""
        self._append(number, custom_id, None, {"code": code, "message": message}, succeeded=False)
        if self._is_due():
            await self.flush()

    async def flush(self) -> None:
        """Store all results and the progress; wait while the store is away.

        Raises:
            LeaseLost: another gateway runs the batch now.
            NoSpace: the project's quota is used up, also after some seconds; the results are lost.
        """
        async with self._flushing:
            unstored, self._unstored = self._unstored, _Unstored()
            self._flushed_at = time.monotonic()
            if not unstored.numbers:
                return
            output = await self._stored(self._batch.output_file, bytes(unstored.output))
            errors = await self._stored(self._batch.error_file, bytes(unstored.errors))
            progress = self._advanced(unstored, output, errors)
            if not await self._repeated(lambda: self._batches.save(self._batch.id, self._runner, progress)):
                raise LeaseLost
            self.progress, self._done = progress, set(progress.done)

    async def flush_if_due(self) -> None:
        """Store the results if it is time for another part. Raises as `flush` does."""
        if self._unstored.numbers and self._is_due():
            await self.flush()

    def _is_due(self) -> bool:
        parts = len(self.progress.output) + len(self.progress.errors)
        interval = MIN_FLUSH_INTERVAL + parts * INTERVAL_PER_PART
        return self._unstored.size >= FLUSH_BYTES or time.monotonic() - self._flushed_at >= interval

    def _append(
        self,
        number: int,
        custom_id: str,
        response: dict[str, Any] | None,
        error: dict[str, str] | None,
        *,
        succeeded: bool,
    ) -> None:
        line = {"id": _line_id(self._batch.id, number), "custom_id": custom_id, "response": response, "error": error}
        unstored = self._unstored
        target = unstored.output if succeeded else unstored.errors
        target += json.dumps(line, separators=(",", ":")).encode() + b"\n"
        unstored.numbers.append(number)
        unstored.completed += succeeded
        unstored.failed += not succeeded

    def _advanced(self, unstored: _Unstored, output: ObjectPart | None, errors: ObjectPart | None) -> BatchProgress:
        before, done = self.progress, self._done.union(unstored.numbers)
        done_to = before.done_to
        while done_to + 1 in done:
            done_to += 1
            done.discard(done_to)
        return replace(
            before,
            done_to=done_to,
            done=sorted(done),
            completed=before.completed + unstored.completed,
            failed=before.failed + unstored.failed,
            output=before.output + ([] if output is None else [output]),
            errors=before.errors + ([] if errors is None else [errors]),
            **{name: getattr(before, name) + count for name, count in unstored.tokens.items()},
        )

    async def _stored(self, file: str, content: bytes) -> ObjectPart | None:
        if not content:
            return None

        async def store() -> ObjectPart:
            draft = self._objects.draft(self._batch.owner, kind=ObjectKind.PART, size=len(content))
            async with self._objects.pending(replace(draft, part_of=file)) as pending:
                written = await self._objects.write(pending, _once(content))
                stored = await self._objects.finish(written, lifetime=self._lifetime())
            return ObjectPart(stored.id, stored.size, stored.sha256)

        return await self._repeated(store)

    async def _repeated(self, write: Callable[[], Awaitable[ResultT]]) -> ResultT:
        refusals = 0
        while True:
            try:
                return await write()
            except (StoreUnavailable, BlobsUnavailable, StorageQuotaExceeded) as error:
                _log.warning("results of a batch can't be stored yet", batch=self._batch.id, reason=str(error))
                refusals += isinstance(error, StorageQuotaExceeded)
                if refusals >= MAX_SPACE_TRIES:
                    raise NoSpace from error
            await asyncio.sleep(RETRY_INTERVAL)


async def _once(content: bytes) -> AsyncIterator[bytes]:
    yield content


def _line_id(batch: str, number: int) -> str:
    return f"batch_req_{hashlib.sha256(f'{batch}:{number}'.encode()).hexdigest()[:32]}"


def _decoded(body: bytes) -> Any:
    try:
        return json.loads(body)
    except ValueError:
        return None


def _count(tokens: dict[str, int], body: Any) -> None:
    """Add the tokens of a response's `usage`, in the words of completions or of responses, to `tokens`."""
    usage = body.get("usage") if isinstance(body, dict) else None
    if not isinstance(usage, dict):
        return
    details = usage.get("prompt_tokens_details") or usage.get("input_tokens_details") or {}
    of_output = usage.get("completion_tokens_details") or usage.get("output_tokens_details") or {}
    for name, value in (
        ("input_tokens", usage.get("prompt_tokens", usage.get("input_tokens"))),
        ("output_tokens", usage.get("completion_tokens", usage.get("output_tokens"))),
        ("cached_tokens", details.get("cached_tokens")),
        ("reasoning_tokens", of_output.get("reasoning_tokens")),
    ):
        tokens[name] = tokens.get(name, 0) + (value or 0)
