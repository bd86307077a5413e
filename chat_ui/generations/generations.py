"""All answers that this process writes, and those that it takes over when the process that wrote them has died.

An answer is one process's at a time, by a lease in the store that it renews; what it writes names itself as the writer,
so a process that was only slow writes nothing into another's answer. Clocks of processes must agree within seconds.
"""

from __future__ import annotations

import asyncio
import secrets
import time
from collections.abc import Awaitable, Callable, Sequence
from functools import partial

import structlog

from auth_billing.errors import StoreUnavailable
from auth_billing.service import Principal
from chat_ui.generations.engine import Engine, Turn
from chat_ui.generations.live import LiveAnswer
from chat_ui.generations.prompt import turns_of
from chat_ui.generations.titles import Titles
from chat_ui.generations.writing import LEASE_SECONDS, Desk, Writing
from chat_ui.history.records import AnswerStore, Claim, Message, MessageStore, Owner
from chat_ui.history.tree import branch, by_id

SCAN_SECONDS = 3.0
MOST_ADOPTED = 16
"""Answers that are taken over in one scan."""
REMEMBERED_SECONDS = 5.0
"""For how long a finished answer is still known here: whoever follows it has its title then."""

Principals = Callable[[Owner, str], Awaitable[Principal]]
"""Who asks, for a person of an organisation and a project. Raises `AccountError` if he may not any more."""

_log = structlog.get_logger(__name__)


class Generations:
    """One per gateway process; `run` it while the process serves."""

    def __init__(
        self,
        engine: Engine,
        messages: MessageStore,
        answers: AnswerStore,
        titles: Titles,
        principals: Principals,
        *,
        stopping: asyncio.Event | None = None,
        clock: Callable[[], float] = time.time,
    ) -> None:
        """`stopping`: set by whoever serves once this process takes nothing new."""
        self.writer = secrets.token_hex(12)
        self._desk = Desk(engine, answers, self.writer, clock)
        self._messages = messages
        self._titles = titles
        self._principals = principals
        self._clock = clock
        self._writings: dict[str, Writing] = {}
        self._tasks: dict[str, asyncio.Task[str]] = {}
        self.stopping = stopping or asyncio.Event()
        """Nothing new is taken over; who follows answers of other processes is to go there."""

    @property
    def lease(self) -> float:
        """Until when what is begun now is this process's."""
        return self._clock() + LEASE_SECONDS

    def live(self, message_id: str) -> LiveAnswer | None:
        """An answer that is being written here, or was just now."""
        writing = self._writings.get(message_id)
        return None if writing is None else writing.live

    def begin(self, owner: Owner, message: Message) -> None:
        """Write an answer whose lease this process has."""
        writing = Writing(
            self._desk,
            owner,
            message,
            partial(self._turns, owner, message),
            partial(self._principals, owner, message.project),
        )
        self._writings[message.id] = writing
        task = self._tasks[message.id] = asyncio.create_task(self._write(writing))
        loop = asyncio.get_running_loop()
        task.add_done_callback(lambda _: loop.call_later(REMEMBERED_SECONDS, self._forget, message.id, writing))

    def stop(self, message_id: str) -> None:
        """End an answer, if it is being written here."""
        if (writing := self._writings.get(message_id)) is not None:
            writing.stop()

    async def titled(self, message: Message) -> str:
        """The title that a conversation is given here after an answer that has ended; empty: none is."""
        if (task := self._tasks.get(message.id)) is not None:
            await asyncio.wait({task})
            return "" if task.cancelled() else task.result()
        return ""

    async def run(self) -> None:
        """Look for answers that nobody writes, until cancelled."""
        while not self.stopping.is_set():
            try:
                for message_id in await self._desk.answers.abandoned(self._clock(), MOST_ADOPTED):
                    claim = await self._desk.answers.claim(message_id, self.writer, self.lease, self._clock())
                    if claim is not None:
                        self._adopt(claim)
            except StoreUnavailable as error:
                _log.warning("can't look for abandoned answers", reason=str(error))
            await asyncio.sleep(SCAN_SECONDS)

    async def close(self) -> None:
        """Leave what is being written to whoever comes next."""
        self.stopping.set()
        for task in self._tasks.values():
            task.cancel()
        await asyncio.gather(*self._tasks.values(), return_exceptions=True)

    def _adopt(self, claim: Claim) -> None:
        _log.info("an answer is taken over", answer=claim.message.id, text=len(claim.message.text))
        self.begin(claim.owner, claim.message)

    async def _write(self, writing: Writing) -> str:
        """The title that the conversation was given after it, if it was."""
        message = writing.live.message
        ended: Message | None = None
        try:
            ended = await writing.run()
        finally:
            if ended is None:
                await self._leave(message.id)
        return "" if ended is None else await self._title(writing.owner, ended)

    async def _title(self, owner: Owner, ended: Message) -> str:
        try:
            return await self._titles.after(owner, ended, partial(self._principals, owner, ended.project))
        except StoreUnavailable as error:
            _log.warning("a conversation has no title yet", reason=str(error))
            return ""

    async def _leave(self, message_id: str) -> None:
        try:
            await asyncio.shield(self._desk.answers.release(message_id, self.writer))
        except StoreUnavailable:
            _log.warning("an answer is left to its lease", answer=message_id)

    def _forget(self, message_id: str, writing: Writing) -> None:
        if self._writings.get(message_id) is writing:
            del self._writings[message_id]
            del self._tasks[message_id]

    async def _turns(self, owner: Owner, answer: Message) -> Sequence[Turn]:
        tree = by_id(await self._messages.all(owner, answer.conversation))
        ids = [each.id for each in branch(tree, answer.parent)]
        whole = by_id(await self._messages.branch(owner, answer.conversation, ids))
        return turns_of([whole[each] for each in ids if each in whole])
