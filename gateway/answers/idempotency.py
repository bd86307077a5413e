"""Requests with an `Idempotency-Key`: each runs once, whoever asks for it how often.

The first request with a key starts its run, and reads the answer like those that join it; the run belongs to none of
them. Who may run is for `auth_billing` to say, whose store all gateways share. Knows routes only as ASGI applications.
"""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections.abc import MutableMapping
from typing import Any

import structlog
from starlette.types import ASGIApp

from auth_billing.errors import AccountError, AnswerNotKept, KeyInUse, RecordRefused, StoreUnavailable
from auth_billing.idempotency import LEASE_SECONDS, Claim, IdempotencyKeys, KeptAnswer, KeyedRequest
from auth_billing.retry import exponential_delay
from gateway.answers.event_frames import DONE
from gateway.answers.live_answer import Head, LiveAnswer, Recorder
from gateway.errors import ServerShutdown

NOTHING_HAPPENED = frozenset({408, 409, 429, 499})
"""Of the 4xx, those that a later try may well not get."""
KEEP_TRYING_SECONDS = 60.0
"""To store an answer while the store is away."""
SETTLING_SECONDS = 2.0
"""That a newcomer waits for the record of a run that came to nothing to go."""
STOP_SECONDS = 2.0

_log = structlog.get_logger(__name__)


class IdempotentRequests:
    """The runs of one gateway."""

    def __init__(self, keys: IdempotencyKeys) -> None:
        self._keys = keys
        self._running: dict[KeyedRequest, LiveAnswer] = {}
        self._tasks: set[asyncio.Task[None]] = set()

    async def answer_to(
        self, request: KeyedRequest, app: ASGIApp, scope: MutableMapping[str, Any], body: bytes
    ) -> tuple[LiveAnswer, bool]:
        """The answer to a request, and whether it was asked for before; if not, `app` is run for it.

        Raises:
            AnswerNotKept: it is running, and its beginning is gone already.
            KeyInUse: it came to nothing, and the store does not know that yet.
        """
        while (running := self._running.get(request)) is not None and _came_to_nothing(running):
            await _until_settled(running)
        if running is not None:
            if not running.is_whole:
                raise AnswerNotKept
            return running, True
        answer = self._running[request] = LiveAnswer()
        task = asyncio.create_task(self._run(request, answer, app, scope, body))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        return answer, False

    async def close(self) -> None:
        """End what runs without a reader; leases end what is left."""
        for answer in self._running.values():
            answer.abandoned.set()
        if self._tasks:
            await asyncio.wait(self._tasks, timeout=STOP_SECONDS)
        for task in self._tasks:
            task.cancel()

    async def _run(
        self, request: KeyedRequest, answer: LiveAnswer, app: ASGIApp, scope: MutableMapping[str, Any], body: bytes
    ) -> None:
        try:
            claim = await self._keys.claim(request)
            if isinstance(claim, KeptAnswer):
                _repeat(claim, answer)
            else:
                await self._run_once(claim, answer, app, scope, body)
        except AccountError as error:
            answer.end(error)
        finally:
            answer.end(ServerShutdown())
            del self._running[request]
            answer.settled.set()

    async def _run_once(
        self, claim: Claim, answer: LiveAnswer, app: ASGIApp, scope: MutableMapping[str, Any], body: bytes
    ) -> None:
        renewing = asyncio.create_task(self._renew(claim))
        recorder = Recorder(body, answer)
        try:
            await app(dict(scope), recorder.receive, recorder.send)
        except Exception as error:  # noqa: BLE001 - every reader raises it again, where it is handled and logged
            answer.end(error)
        finally:
            answer.end(RuntimeError("the route did not complete its answer"))
            await self._settle(claim, _to_keep(answer))
            renewing.cancel()

    async def _renew(self, claim: Claim) -> None:
        while True:
            await asyncio.sleep(LEASE_SECONDS / 3)
            with contextlib.suppress(StoreUnavailable):
                if not await self._keys.renew(claim):
                    _log.warning("a request with an idempotency key runs twice", record=claim.record_id)
                    return

    async def _settle(self, claim: Claim, kept: KeptAnswer | None) -> None:
        """Keep the answer, or let the next request with the key run; while the store is away, try for a while."""
        give_up, tries = time.monotonic() + KEEP_TRYING_SECONDS, 0
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
                if time.monotonic() > give_up:
                    _log.warning("answer not kept", record=claim.record_id, reason=str(error))
                    return
            await asyncio.sleep(exponential_delay(tries))
            tries += 1


def _repeat(kept: KeptAnswer, answer: LiveAnswer) -> None:
    answer.is_repetition = True
    answer.start(Head(kept.status, kept.headers))
    answer.append(kept.body or b"")
    answer.end()


async def _until_settled(answer: LiveAnswer) -> None:
    try:
        async with asyncio.timeout(SETTLING_SECONDS):
            await answer.settled.wait()
    except TimeoutError as error:
        raise KeyInUse from error


def _came_to_nothing(answer: LiveAnswer) -> bool:
    """Whether a newcomer would find nothing worth reading: a run of its own is better."""
    return answer.abandoned.is_set() or (answer.has_ended and not _is_lasting(answer))


def _is_lasting(answer: LiveAnswer) -> bool:
    """Whether a later request with the key gets this answer; else it runs again."""
    head = answer.head
    if head is None or head.status in NOTHING_HAPPENED or head.status >= 500:
        return False
    return not head.is_stream or answer.ends_with(DONE.encode())


def _to_keep(answer: LiveAnswer) -> KeptAnswer | None:
    if answer.head is None or not _is_lasting(answer):
        return None
    return KeptAnswer(answer.head.status, answer.head.headers, answer.body if answer.fits else None)
