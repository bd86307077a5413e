"""Asks the gateway of a job that was delivered again how it goes on
(docs/design/queue-topology.md#resume), until it says so.

Nothing is done for such a job before: another worker may be at it, or its client may have a part of the answer. Does
not know what a job asks for; that its gateway has gone is told to others.
"""

from __future__ import annotations

import asyncio
from contextlib import suppress

import msgspec

from router.consumer.taken_jobs import TakenJob
from router.consumer.windows import Outbox
from router.messages import MayResume, Resume, Verdict

ASK_AGAIN_SECONDS = 2.0
"""After a question that was not answered, or by \"wait\"."""


class Resumptions:
    """The questions of one worker. Use on the event loop only."""

    def __init__(self, outbox: Outbox) -> None:
        self._outbox = outbox
        self._open: dict[str, asyncio.Queue[Resume]] = {}

    async def ask(self, taken: TakenJob) -> Verdict | None:
        """How `taken` goes on: if by `START`, its job says after what. `None`: it has ended meanwhile."""
        answers = self._open[taken.attempt] = asyncio.Queue()
        try:
            answer = await self._answer(taken, answers)
        finally:
            del self._open[taken.attempt]
        if answer is None:
            return None
        taken.log.info("job was delivered again", verdict=str(answer.verdict))
        taken.solo, taken.crashes = answer.solo, answer.crashes
        taken.job = msgspec.structs.replace(
            taken.job,
            delivered=answer.delivered,
            ended=answer.ended,
            embedded=answer.embedded,
            cached_tokens=answer.cached_tokens,
        )
        return answer.verdict

    def hear(self, answer: Resume) -> None:
        """Take an answer; one that nobody waits for any more changes nothing."""
        if (answers := self._open.get(answer.attempt)) is not None:
            answers.put_nowait(answer)

    async def _answer(self, taken: TakenJob, answers: asyncio.Queue[Resume]) -> Resume | None:
        """The first answer that is not "wait"; while waiting, it may come without a question."""
        while not taken.ended:
            question = MayResume(
                j=taken.job.id, a=taken.attempt, delivery_count=taken.delivery.delivery_count, copy=taken.job.attempt
            )
            self._outbox.put(taken.job.reply_to, question, urgent=True)
            with suppress(TimeoutError):
                async with asyncio.timeout(ASK_AGAIN_SECONDS):
                    while (answer := await answers.get()).verdict is Verdict.WAIT:
                        pass
                    return None if taken.ended else answer
        return None
