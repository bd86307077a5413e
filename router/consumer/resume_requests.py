"""Asks a job's gateway whether and how a worker may run a job again, and repeats the request until it is answered.

A job that another attempt may have started must not start before (docs/design/queue-topology.md#resume): another worker
may be running it, or its client may have a part of the answer. Nor must a job that was in a crashed engine run again
before: the crash is counted then, even if this worker dies too (docs/design/queue-topology.md#poison).
"""

from __future__ import annotations

import asyncio
from contextlib import suppress

from router.consumer.attempts import Attempt
from router.consumer.reply_outbox import ReplyOutbox
from router.messages import Resume, ResumeDecision, ResumeRequest


class ResumeRequests:
    """Pending resume requests of one worker, repeated every `interval` seconds. Use on the event loop only."""

    def __init__(self, outbox: ReplyOutbox, interval: float) -> None:
        self._outbox = outbox
        self._interval = interval
        self._pending: dict[str, asyncio.Queue[Resume]] = {}

    async def response_to(self, attempt: Attempt) -> Resume | None:
        """Ask the gateway how to continue one attempt until it responds; return that, or `None` if the attempt ended.

        Sets the attempt's `solo` and its number of crashes from the response.
        """
        responses = self._pending[attempt.attempt_id] = asyncio.Queue()
        try:
            response = await self._first_response(attempt, responses)
        finally:
            del self._pending[attempt.attempt_id]
        if response is not None:
            attempt.log.info("gateway decided on a job", decision=str(response.decision), crashes=response.crashes)
            attempt.solo, attempt.crashes = attempt.solo or response.solo, response.crashes
        return response

    def handle_response(self, response: Resume) -> None:
        """Pass a gateway's `response` to the task that waits for it.

        Ignored if no request is pending for its attempt.
        """
        if (responses := self._pending.get(response.attempt)) is not None:
            responses.put_nowait(response)

    async def _first_response(self, attempt: Attempt, responses: asyncio.Queue[Resume]) -> Resume | None:
        """Return the first response that is not "wait"; after a "wait" it may arrive unrequested."""
        while not attempt.ended:
            request = ResumeRequest(
                job_id=attempt.job.id,
                attempt_id=attempt.attempt_id,
                delivery_count=attempt.delivery.delivery_count,
                copy_number=attempt.job.copy_number,
                crashes=attempt.crashes,
                continues=attempt.continues,
            )
            self._outbox.put(attempt.job.reply_to, request, urgent=True)
            with suppress(TimeoutError):
                async with asyncio.timeout(self._interval):
                    while (response := await responses.get()).decision is ResumeDecision.WAIT:
                        pass
                    return None if attempt.ended else response
        return None
