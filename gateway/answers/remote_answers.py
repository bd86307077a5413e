"""Copies the response of an idempotent request from the gateway that runs it to other gateways, over the broker.

The following gateway asks for the part after what it has (`FollowAnswer`), and the gateway that runs the request sends
it as soon as there is one (`AnswerPart`). So at most one part of a follower is on its way, and a lost one is requested
again. A follower counts as a reader until it leaves, or is silent for longer than a request waits for the broker.
Control messages are signed, and workers can't read these.
"""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine, Iterator
from contextlib import contextmanager, suppress
from functools import partial
from typing import Any

from auth_billing.errors import AnswerNotKept
from auth_billing.idempotency import RemoteRun
from gateway.answers.shared_response import ResponseHead, SharedResponse
from gateway.errors import ClientDisconnected, ServerShutdown
from router import control_targets
from router.bus import Bus
from router.errors import BrokerUnavailable
from router.messages import AnswerPart, AnswerState, FollowAnswer
from router.producer.errors import SlowClient

PART_BYTES = 128 * 1024
"""Most bytes of a part's body."""
MORE_TIMEOUT = 2.0
"""Seconds after which a part is sent even if there is nothing new, as a sign that the gateway lives."""
REPLY_TIMEOUT = 4.0
"""Seconds that a follower waits for a part."""
FOLLOWER_TIMEOUT = 60.0
"""Seconds without a request after which a follower no longer counts as a reader: its gateway is dead, or the broker."""
FOLLOWED_RETENTION = 5.0
"""Seconds for which the ended response of a run that was followed can still be copied."""


class RemoteAnswers:
    """Sends the answers of one gateway's runs to other gateways, and copies answers of runs at other gateways.

    `process_id` is the id to which other gateways address their messages.
    """

    def __init__(self, bus: Bus, process_id: str) -> None:
        self.process_id = process_id
        self._bus = bus
        self._runs: dict[str, SharedResponse] = {}
        """Responses of this gateway's runs, by run id."""
        self._followed: set[str] = set()
        self._expected: dict[str, asyncio.Future[AnswerPart]] = {}
        """Parts that this gateway waits for, by run id; requests for one run are copied once."""
        self._followers: dict[tuple[str, str], asyncio.Task[None]] = {}
        """Tasks that count followers as readers, by run id and the follower's process id."""
        self._tasks: set[asyncio.Task[None]] = set()

    # Sending

    @contextmanager
    def published(self, run_id: str, answer: SharedResponse) -> Iterator[None]:
        """Let other gateways copy `answer`, the response of this gateway's run `run_id`, while the block runs."""
        self._runs[run_id] = answer
        try:
            yield
        finally:
            if run_id in self._followed:
                self._followed.discard(run_id)
                asyncio.get_running_loop().call_later(FOLLOWED_RETENTION, self._runs.pop, run_id, None)
            else:
                del self._runs[run_id]

    def send_next(self, request: FollowAnswer) -> None:
        """Send another gateway the next part of a run's answer, once there is one, in the background.

        A `request` that `leaves` ends the copying instead.
        """
        answer, follower = self._runs.get(request.run), (request.run, request.reply_to)
        if (reading := self._followers.pop(follower, None)) is not None:
            reading.cancel()
        if request.leaves:
            return
        if answer is not None and not answer.recorded.is_set():
            self._followed.add(request.run)
            self._followers[follower] = self._spawn(_read(answer))
            self._followers[follower].add_done_callback(partial(self._forget, follower))
        self._spawn(self._send_next(request, answer))

    def _forget(self, follower: tuple[str, str], reading: asyncio.Task[None]) -> None:
        if self._followers.get(follower) is reading:
            del self._followers[follower]

    async def _send_next(self, request: FollowAnswer, answer: SharedResponse | None) -> None:
        if answer is None:
            part = AnswerPart(run=request.run, state=AnswerState.UNKNOWN, start=request.received)
        elif answer.has_failed and not request.started:
            part = AnswerPart(run=request.run, state=AnswerState.FAILED, start=request.received)
        else:
            await answer.wait_for_more(request.received, MORE_TIMEOUT, started=request.started)
            part = _part(answer, request)
        with suppress(BrokerUnavailable):
            self._bus.send_control(control_targets.gateway(request.reply_to), part)

    # Receiving

    def receive(self, part: AnswerPart) -> None:
        """Pass a part that another gateway sent to the copy that waits for it; ignored if none does."""
        expected = self._expected.get(part.run)
        if expected is not None and not expected.done():
            expected.set_result(part)

    async def copy(self, run: RemoteRun, answer: SharedResponse) -> bool:
        """Copy the response of `run`, at another gateway, into `answer` until it ends or `answer` is abandoned.

        Return false if the gateway of the run does not answer, or can't give the answer's end.
        """
        abandoned = asyncio.create_task(answer.abandoned.wait())
        try:
            while not abandoned.done():
                part = await self._next_part(run, answer, abandoned)
                if part is None or part.state in (AnswerState.UNKNOWN, AnswerState.FAILED):
                    if abandoned.done():
                        break
                    return _break_off(answer) if part and part.state is AnswerState.FAILED else False
                if part.state is AnswerState.DROPPED:
                    answer.end(SlowClient() if answer.received else AnswerNotKept())
                    return True
                if part.start != answer.received:
                    continue  # the answer to an earlier request
                if answer.head is None and part.status:
                    answer.start(ResponseHead(part.status, part.headers))
                if part.body:
                    answer.append(part.body)
                if part.state is AnswerState.ENDED:
                    answer.complete()
                    answer.end()
                    return True
            answer.end(ClientDisconnected())
            self._request(run, answer, leaves=True)
            return True
        finally:
            abandoned.cancel()

    async def _next_part(
        self, run: RemoteRun, answer: SharedResponse, abandoned: asyncio.Task[Any]
    ) -> AnswerPart | None:
        expected = self._expected[run.run_id] = asyncio.get_running_loop().create_future()
        try:
            self._request(run, answer)
            await asyncio.wait({expected, abandoned}, timeout=REPLY_TIMEOUT, return_when=asyncio.FIRST_COMPLETED)
            return expected.result() if expected.done() else None
        finally:
            del self._expected[run.run_id]

    def _request(self, run: RemoteRun, answer: SharedResponse, *, leaves: bool = False) -> None:
        """Ask for the next part of a run's response, unless the broker is away: it is requested again."""
        request = FollowAnswer(
            run=run.run_id,
            reply_to=self.process_id,
            received=answer.received,
            started=answer.head is not None,
            leaves=leaves,
        )
        with suppress(BrokerUnavailable):
            self._bus.send_control(control_targets.gateway(run.gateway), request)

    def _spawn(self, work: Coroutine[Any, Any, None]) -> asyncio.Task[None]:
        task = asyncio.create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        return task


async def _read(answer: SharedResponse) -> None:
    """Count a follower as a reader of `answer`, which does not end without readers."""
    with answer.reader(), suppress(TimeoutError):
        async with asyncio.timeout(FOLLOWER_TIMEOUT):
            await answer.recorded.wait()


def _part(answer: SharedResponse, request: FollowAnswer) -> AnswerPart:
    """Return the next part of `answer` for a follower."""
    run, start = request.run, request.received
    try:
        body = answer.part(start, PART_BYTES)
    except SlowClient:
        return AnswerPart(run=run, state=AnswerState.DROPPED, start=start)
    state = AnswerState.RUNNING
    if start + len(body) >= answer.readable:
        if answer.broke_off or answer.abandoned.is_set():
            state = AnswerState.FAILED
        elif answer.has_ended:
            state = AnswerState.ENDED
    head = answer.head
    if head is None:
        return AnswerPart(run=run, state=state, start=start)
    return AnswerPart(run=run, state=state, start=start, body=body, status=head.status, headers=head.headers)


def _break_off(answer: SharedResponse) -> bool:
    """End a copy whose run failed; return false if no client has seen anything of it, so that it can run again."""
    if answer.head is None:
        return False
    answer.end(ServerShutdown())
    return True
