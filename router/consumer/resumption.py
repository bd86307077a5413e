"""Asks the gateway of a job that was delivered again how it goes on (PROMISES 2.5), until it says so.

Nothing is done for such a job before: another worker may be at it, or its client may have a part of the answer. Does
not know what a job asks for; that its gateway has gone is told to others.
"""

from __future__ import annotations

import asyncio

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
        self._open: dict[str, asyncio.Future[Resume]] = {}

    async def ask(self, taken: TakenJob) -> Verdict | None:
        """How `taken` goes on: if by `START`, its job says after what. `None`: it has ended meanwhile."""
        question = MayResume(j=taken.job.id, a=taken.attempt, delivery_count=taken.delivery.delivery_count)
        while not taken.ended:
            answer = await self._ask_once(taken, question)
            if answer is None:
                continue
            if answer.verdict is Verdict.WAIT:
                await asyncio.sleep(ASK_AGAIN_SECONDS)
                continue
            taken.log.info("job was delivered again", verdict=str(answer.verdict))
            taken.solo, taken.crashes = answer.solo, answer.crashes
            taken.job = msgspec.structs.replace(
                taken.job,
                delivered=answer.delivered,
                ended=answer.ended,
                embedded=answer.embedded,
                cached_tokens=answer.cached_tokens,
            )
            return None if taken.ended else answer.verdict
        return None

    def hear(self, answer: Resume) -> None:
        """Take an answer; one that nobody waits for any more changes nothing."""
        future = self._open.get(answer.attempt)
        if future is not None and not future.done():
            future.set_result(answer)

    async def _ask_once(self, taken: TakenJob, question: MayResume) -> Resume | None:
        future: asyncio.Future[Resume] = asyncio.get_running_loop().create_future()
        self._open[taken.attempt] = future
        self._outbox.put(taken.job.reply_to, question, urgent=True)
        try:
            async with asyncio.timeout(ASK_AGAIN_SECONDS):
                return await future
        except TimeoutError:
            return None
        finally:
            del self._open[taken.attempt]
