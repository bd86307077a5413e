"""Resume requests: a worker asks a redelivered job's gateway how to continue it, and repeats until it is answered.

The job must not start before (docs/design/queue-topology.md#resume): another worker may be running it, or its client
may have a part of the answer.
"""

from __future__ import annotations

import asyncio
from contextlib import suppress

import msgspec

from router.consumer.taken_jobs import TakenJob
from router.consumer.windows import Outbox
from router.messages import Resume, ResumeDecision, ResumeRequest

ASK_AGAIN_SECONDS = 2.0
"""Seconds until a request is repeated that was not answered, or was answered by "wait"."""


class Resumptions:
    """Pending resume requests of one worker. Use on the event loop only."""

    def __init__(self, outbox: Outbox) -> None:
        self._outbox = outbox
        self._open: dict[str, asyncio.Queue[Resume]] = {}

    async def ask(self, taken: TakenJob) -> ResumeDecision | None:
        """Request the decision on `taken` and copy the delivered state into its job; `None` if it ended meanwhile."""
        answers = self._open[taken.attempt] = asyncio.Queue()
        try:
            answer = await self._answer(taken, answers)
        finally:
            del self._open[taken.attempt]
        if answer is None:
            return None
        taken.log.info("job was delivered again", verdict=str(answer.decision))
        taken.solo, taken.crashes = answer.solo, answer.crashes
        taken.job = msgspec.structs.replace(
            taken.job,
            delivered=answer.delivered,
            ended=answer.ended,
            embedded=answer.embedded,
            cached_tokens=answer.cached_tokens,
        )
        return answer.decision

    def hear(self, answer: Resume) -> None:
        """Process a response; ignored if no request is pending for its attempt."""
        if (answers := self._open.get(answer.attempt)) is not None:
            answers.put_nowait(answer)

    async def _answer(self, taken: TakenJob, answers: asyncio.Queue[Resume]) -> Resume | None:
        """Return the first response that is not "wait"; after a "wait" it may arrive unrequested."""
        while not taken.ended:
            question = ResumeRequest(
                job_id=taken.job.id,
                attempt_id=taken.attempt,
                delivery_count=taken.delivery.delivery_count,
                copy_number=taken.job.copy_number,
            )
            self._outbox.put(taken.job.reply_to, question, urgent=True)
            with suppress(TimeoutError):
                async with asyncio.timeout(ASK_AGAIN_SECONDS):
                    while (answer := await answers.get()).decision is ResumeDecision.WAIT:
                        pass
                    return None if taken.ended else answer
        return None
