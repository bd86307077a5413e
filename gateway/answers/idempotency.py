"""Runs each request with an `Idempotency-Key` once, however often it is sent.

The first request with a key starts a run, and reads its response like the requests that join it; the run does not end
with any of them. `auth_billing`, whose store all gateways share, decides which gateway may run a key. No client gets
the end of a response before it is stored: if the gateway dies, a repeated request gets what a client has got whole.
"""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections.abc import Awaitable, Callable, MutableMapping
from contextlib import AbstractContextManager, ExitStack
from functools import partial
from typing import Any

import structlog
from starlette.types import ASGIApp

from auth_billing.errors import AccountError, AnswerNotKept, KeyInUse, RecordRefused, StoreUnavailable
from auth_billing.idempotency import Claim, IdempotencyKeys, KeptAnswer, KeyedRequest
from gateway.answers.event_frames import DONE
from gateway.answers.shared_response import ResponseHead, ResponseRecorder, SharedResponse
from gateway.errors import ServerShutdown
from runtime.retry import DEFAULT_WAIT, Backoff

RETRYABLE_STATUSES = frozenset({408, 409, 429, 499})
"""Client errors that are not stored, because a later request may succeed."""
STORE_RETRY_TIMEOUT = 60.0
"""Seconds for which storing a response is retried while the store is unavailable."""
RECORD_TIMEOUT = 2.0
"""Seconds that a new request waits until the record of a failed run is removed."""
STOP_TIMEOUT = 2.0
"""Seconds that `close` waits for running requests to stop."""

_log = structlog.get_logger(__name__)


class IdempotentRequests:
    """Runs one gateway's requests with idempotency keys; renews their leases every `renewal_interval` seconds."""

    def __init__(self, keys: IdempotencyKeys, renewal_interval: float) -> None:
        self._keys = keys
        self._renewal_interval = renewal_interval
        self._running: dict[KeyedRequest, SharedResponse] = {}
        self._tasks: set[asyncio.Task[None]] = set()

    async def response_to(
        self,
        request: KeyedRequest,
        app: ASGIApp,
        scope: MutableMapping[str, Any],
        body: bytes,
        resources: AbstractContextManager[None],
    ) -> tuple[SharedResponse, bool]:
        """Join the run of an equal request, or start one of `app`; return the response, and whether a run was joined.

        `resources` is entered when the run starts, before anything is awaited, and exited when `app` has ended.

        Raises:
            AnswerNotKept: The running response is so long that its beginning was dropped from the buffer.
            KeyInUse: The previous run failed, and its record is not removed yet.
        """
        while (running := self._running.get(request)) is not None and _has_failed(running):
            await _until_recorded(running)
        if running is not None:
            if not running.has_beginning:
                raise AnswerNotKept
            return running, True
        answer = self._running[request] = SharedResponse()
        recorder = ResponseRecorder(body, answer)
        run_app = partial(app, dict(scope), recorder.receive, recorder.send)
        task = asyncio.create_task(self._run(request, answer, run_app, resources))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        return answer, False

    async def close(self) -> None:
        """Abandon all runs; cancel those still running after `STOP_TIMEOUT`, whose records expire with their leases."""
        for answer in self._running.values():
            answer.abandoned.set()
        if self._tasks:
            await asyncio.wait(self._tasks, timeout=STOP_TIMEOUT)
        for task in self._tasks:
            task.cancel()

    async def _run(
        self,
        request: KeyedRequest,
        answer: SharedResponse,
        run_app: Callable[[], Awaitable[None]],
        resources: AbstractContextManager[None],
    ) -> None:
        try:
            with ExitStack() as entered:
                entered.enter_context(resources)
                claim = await self._keys.claim(request)
                if isinstance(claim, KeptAnswer):
                    _replay(claim, answer)
                else:
                    await self._run_once(claim, answer, run_app, entered)
        except AccountError as error:
            answer.end(error)
        finally:
            answer.end(None if answer.is_complete else ServerShutdown())
            del self._running[request]
            answer.recorded.set()

    async def _run_once(
        self, claim: Claim, answer: SharedResponse, run_app: Callable[[], Awaitable[None]], entered: ExitStack
    ) -> None:
        renewing = asyncio.create_task(self._renew(claim))
        try:
            await run_app()
        except Exception as error:  # noqa: BLE001 - raised again in every reader, where it is handled and logged
            answer.end(error)
        finally:
            if not answer.is_complete:
                answer.end(RuntimeError("the route did not complete its answer"))
            entered.close()
            kept = _stored_form(answer)
            if kept is None:
                answer.end()
            await self._record(claim, kept)
            answer.end()
            renewing.cancel()

    async def _renew(self, claim: Claim) -> None:
        while True:
            await asyncio.sleep(self._renewal_interval)
            with contextlib.suppress(StoreUnavailable):
                if not await self._keys.renew(claim):
                    _log.warning("a request with an idempotency key runs twice", record=claim.record_id)
                    return

    async def _record(self, claim: Claim, kept: KeptAnswer | None) -> None:
        """Store the response, or release the key for the next request; retry while the store is unavailable."""
        deadline, backoff = time.monotonic() + STORE_RETRY_TIMEOUT, Backoff(DEFAULT_WAIT)
        while True:
            try:
                if kept is None:
                    await self._keys.release(claim)
                elif not await self._keys.finish(claim, kept):
                    _log.warning("a request with an idempotency key ran twice", record=claim.record_id)
                return
            except RecordRefused:
                kept = KeptAnswer(kept.status, kept.headers, None) if kept else None
            except StoreUnavailable as error:
                if time.monotonic() > deadline:
                    _log.warning("answer not kept", record=claim.record_id, reason=str(error))
                    return
            await backoff.sleep()


def _replay(kept: KeptAnswer, answer: SharedResponse) -> None:
    answer.is_replay = True
    answer.start(ResponseHead(kept.status, kept.headers))
    answer.append(kept.body or b"")
    answer.complete()
    answer.end()


async def _until_recorded(answer: SharedResponse) -> None:
    try:
        async with asyncio.timeout(RECORD_TIMEOUT):
            await answer.recorded.wait()
    except TimeoutError as error:
        raise KeyInUse from error


def _has_failed(answer: SharedResponse) -> bool:
    """Return whether a new request should start a run of its own instead of joining this one."""
    return answer.abandoned.is_set() or (answer.has_ended and not _is_lasting(answer))


def _is_lasting(answer: SharedResponse) -> bool:
    """Return whether this response is stored for later requests with the key; otherwise they run again."""
    head = answer.head
    if head is None or not answer.is_complete or head.status in RETRYABLE_STATUSES or head.status >= 500:
        return False
    return not head.is_stream or answer.ends_with(DONE.encode())


def _stored_form(answer: SharedResponse) -> KeptAnswer | None:
    if answer.head is None or not _is_lasting(answer):
        return None
    return KeptAnswer(answer.head.status, answer.head.headers, answer.body if answer.is_storable else None)
