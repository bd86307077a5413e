"""Resume requests: a worker queries a redelivered job's gateway how to continue it, until it is answered.

The job must not start before (docs/design/queue-topology.md#resume): another worker may be running it, or its client
may have a part of the answer.
"""

from __future__ import annotations

import asyncio
from contextlib import suppress

import msgspec

from router.consumer.attempts import Attempt
from router.consumer.reply_outbox import ReplyOutbox
from router.messages import Resume, ResumeDecision, ResumeRequest


class ResumeRequests:
    """Pending resume requests of one worker, repeated every `interval` seconds. Use on the event loop only."""

    def __init__(self, outbox: ReplyOutbox, interval: float) -> None:
        self._outbox = outbox
        self._interval = interval
        self._pending: dict[str, asyncio.Queue[Resume]] = {}

    async def request_decision(self, attempt: Attempt) -> ResumeDecision | None:
        """Return the gateway's decision on `attempt`, `None` if it ended; copies what was delivered into its job."""
        responses = self._pending[attempt.attempt_id] = asyncio.Queue()
        try:
            response = await self._response_to(attempt, responses)
        finally:
            del self._pending[attempt.attempt_id]
        if response is None:
            return None
        attempt.log.info("job was redelivered", decision=str(response.decision))
        attempt.solo, attempt.crashes = response.solo, response.crashes
        attempt.job = msgspec.structs.replace(
            attempt.job,
            delivered=response.delivered,
            ended=response.ended,
            embedded=response.embedded,
            cached_tokens=response.cached_tokens,
        )
        return response.decision

    def handle_response(self, response: Resume) -> None:
        """Complete the request that `response` answers; ignored if no request is pending for its attempt."""
        if (responses := self._pending.get(response.attempt)) is not None:
            responses.put_nowait(response)

    async def _response_to(self, attempt: Attempt, responses: asyncio.Queue[Resume]) -> Resume | None:
        """Return the first response that is not "wait"; after a "wait" it may arrive unrequested."""
        while not attempt.ended:
            request = ResumeRequest(
                job_id=attempt.job.id,
                attempt_id=attempt.attempt_id,
                delivery_count=attempt.delivery.delivery_count,
                copy_number=attempt.job.copy_number,
            )
            self._outbox.put(attempt.job.reply_to, request, urgent=True)
            with suppress(TimeoutError):
                async with asyncio.timeout(self._interval):
                    while (response := await responses.get()).decision is ResumeDecision.WAIT:
                        pass
                    return None if attempt.ended else response
        return None
