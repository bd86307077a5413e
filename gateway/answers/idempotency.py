"""Runs each request with an `Idempotency-Key` once, however often clients send it, and shares or replays its response.

The first request with a key starts a run, and reads its response like the requests that join it; the run does not end
with any of them. `auth_billing`, whose store all gateways share, decides which gateway may run a key; the others copy
its response. A response is stored together with its receipts, then the receipts are published, then clients get the
end: if the gateway dies, a repeated request gets what a client has got whole, and only a stored response is billed.
"""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections.abc import Awaitable, Callable, MutableMapping, Sequence
from contextlib import AbstractContextManager, ExitStack
from dataclasses import replace
from typing import Any

import structlog
from starlette.types import ASGIApp

from auth_billing.errors import AccountError, AnswerNotKept, KeyInUse, RecordRefused, StoreUnavailable
from auth_billing.idempotency import Claim, IdempotencyKeys, KeptAnswer, KeyedRequest, RemoteRun
from gateway.answers.remote_answers import RemoteAnswers
from gateway.answers.shared_response import ResponseHead, ResponseRecorder, SharedResponse
from gateway.errors import ServerShutdown
from gateway.jobs.keyed_billing import SCOPE_KEY, KeyedBilling
from router.bus import Bus
from router.messages import Receipt
from runtime.retry import DEFAULT_WAIT, Backoff

REQUEST_KEY = "headrace.keyed_request"
"""Key of the `KeyedRequest` in the ASGI scope of a run."""
STORE_RETRY_TIMEOUT = 60.0
"""Seconds for which storing a response is retried while the store is unavailable."""
RECEIPT_TIMEOUT = 60.0
"""Seconds that the end of a response waits for the confirm of its receipts."""
CLAIM_INTERVAL = 0.5
"""Seconds between two claims of a run whose gateway does not answer."""
RECORD_TIMEOUT = 2.0
"""Seconds that a new request waits until the record of a failed run is removed."""
STOP_TIMEOUT = 2.0
"""Seconds that `close` waits for running requests to stop."""

_log = structlog.get_logger(__name__)


class IdempotentRequests:
    """Runs one gateway's requests with idempotency keys; renews their leases every `renewal_interval` seconds."""

    def __init__(self, keys: IdempotencyKeys, bus: Bus, renewal_interval: float) -> None:
        self.remote = RemoteAnswers(bus, keys.gateway)
        """Exchange of responses with other gateways; its control messages must be passed to it."""
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
        """Join the run of an equal request, or start a run of `app`; return its response, and whether a run was joined.

        A run at another gateway is joined too, which `SharedResponse.is_replay` says once the response has started.
        `resources` is entered when the run starts, before anything is awaited, and exited when `app` has ended.

        Raises:
            AnswerNotKept: The running response is so long that its beginning was dropped from the buffer.
            KeyInUse: The previous run failed, and its record is not removed yet.
        """
        while (running := self._running.get(request)) is not None and running.has_failed:
            await _until_recorded(running)
        if running is not None:
            if not running.has_beginning:
                raise AnswerNotKept
            return running, True
        answer = self._running[request] = SharedResponse()
        recorder = ResponseRecorder(body, answer)

        def run_app(keyed: KeyedBilling) -> Awaitable[None]:
            return app({**scope, SCOPE_KEY: keyed, REQUEST_KEY: request}, recorder.receive, recorder.send)

        task = asyncio.create_task(self._run(request, answer, run_app, resources))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        return answer, False

    async def drop_answers(self, requests: Sequence[KeyedRequest]) -> None:
        """Erase the stored responses to requests, which are not repeated; billing does not need them.

        Raises:
            StoreUnavailable: the responses may be stored still.
        """
        await self._keys.drop_answers(requests)

    async def close(self) -> None:
        """Abandon all runs of this gateway at shutdown, and cancel those still running after `STOP_TIMEOUT`.

        The records of cancelled runs expire with their leases.
        """
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
        run_app: Callable[[KeyedBilling], Awaitable[None]],
        resources: AbstractContextManager[None],
    ) -> None:
        try:
            with ExitStack() as entered:
                entered.enter_context(resources)
                claim = await self._claim(request, answer)
                if isinstance(claim, KeptAnswer):
                    _replay(claim, answer)
                elif claim is not None:
                    with self.remote.published(claim.run_id, answer):
                        await self._run_once(claim, answer, run_app, entered)
        except AccountError as error:
            answer.end(error)
        finally:
            answer.end(None if answer.is_complete else ServerShutdown())
            del self._running[request]
            answer.recorded.set()

    async def _claim(self, request: KeyedRequest, answer: SharedResponse) -> Claim | KeptAnswer | None:
        """Claim the run of `request`, or return its stored response; `None` once a run elsewhere was copied to its end.

        A run whose gateway does not answer is taken over when its lease has expired, unless clients have seen a part of
        its response: another run's response would not continue it.
        """
        while True:
            state = await self._keys.claim(request)
            if not isinstance(state, RemoteRun):
                answer.is_replay, answer.lingers = False, True
                return state
            answer.is_replay, answer.lingers = True, False
            if await self._copied(state, answer):
                return None
            await asyncio.sleep(CLAIM_INTERVAL)

    async def _copied(self, run: RemoteRun, answer: SharedResponse) -> bool:
        """Copy the response of `run` to its end; false, with nothing copied, if its gateway does not answer."""
        while not await self.remote.copy(run, answer):
            if answer.head is None:
                return False
            await asyncio.sleep(CLAIM_INTERVAL)
            try:
                state = await self._keys.state_of(run)
            except StoreUnavailable:
                continue
            match state:
                case KeptAnswer(body=bytes() as body):
                    answer.append(body[answer.received :])
                    answer.complete()
                    break
                case None:
                    answer.end(ServerShutdown())
                    break
        return True

    async def _run_once(
        self,
        claim: Claim,
        answer: SharedResponse,
        run_app: Callable[[KeyedBilling], Awaitable[None]],
        entered: ExitStack,
    ) -> None:
        renewing = asyncio.create_task(self._renew(claim, answer))
        keyed = KeyedBilling(claim.record_id)
        try:
            await run_app(keyed)
        except Exception as error:  # noqa: BLE001 - raised again in every reader, where it is handled and logged
            answer.end(error)
        finally:
            if not answer.is_complete:
                answer.end(RuntimeError("the route did not complete its answer"))
            entered.close()
            kept = _stored_form(answer, keyed.receipts)
            if kept is None:
                answer.end()
            holds = await self._record(claim, kept, keyed)
            renewing.cancel()
            if not holds:
                answer.end(KeyInUse())
            await keyed.settle(RECEIPT_TIMEOUT, pays=holds)
            answer.end()

    async def _renew(self, claim: Claim, answer: SharedResponse) -> None:
        while True:
            await asyncio.sleep(self._renewal_interval)
            with contextlib.suppress(StoreUnavailable):
                if not await self._keys.renew(claim):
                    _log.warning("a request with an idempotency key runs twice", record=claim.record_id)
                    answer.end(KeyInUse())
                    answer.abandoned.set()
                    return

    async def _record(self, claim: Claim, kept: KeptAnswer | None, keyed: KeyedBilling) -> bool:
        """Store the response after its jobs, or release the key for the next request.

        Retry while the store is unavailable.

        Return false if another run has taken the request over: this one must neither end nor be billed.
        """
        deadline, backoff = time.monotonic() + STORE_RETRY_TIMEOUT, Backoff(DEFAULT_WAIT)
        while True:
            try:
                if kept is not None:
                    await keyed.wait_for_jobs()
                held = await (self._keys.release(claim) if kept is None else self._keys.finish(claim, kept))
                if not held:
                    _log.warning("a request with an idempotency key ran twice", record=claim.record_id)
                return held
            except RecordRefused:
                kept = replace(kept, body=None) if kept else None
            except StoreUnavailable as error:
                if time.monotonic() > deadline:
                    _log.warning("answer not kept", record=claim.record_id, reason=str(error))
                    return True
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


def _stored_form(answer: SharedResponse, receipts: Sequence[Receipt]) -> KeptAnswer | None:
    if answer.head is None or not answer.is_lasting:
        return None
    body = answer.body if answer.is_storable else None
    return KeptAnswer(answer.head.status, answer.head.headers, body, receipts)
