"""Starts and stops the answers that this process writes, and takes over answers whose process has died.

Each answer is leased to one process, which renews its lease in the store. Writes are conditional on the writer's name,
so a process that was only slow can't overwrite its successor. Clocks of processes must agree within seconds.
"""

from __future__ import annotations

import asyncio
import secrets
import time
from collections.abc import Awaitable, Callable, Sequence
from functools import partial

import structlog

from auth_billing.access.principal import Principal
from auth_billing.errors import StoreUnavailable
from chat_ui.generations.engine import Engine, Turn
from chat_ui.generations.live import LiveAnswer
from chat_ui.generations.prompt import turns_of
from chat_ui.generations.titles import Titles
from chat_ui.generations.writing import LEASE_SECONDS, Desk, Writing
from chat_ui.history.records import AnswerStore, Claim, Message, MessageStore, Owner
from chat_ui.history.tree import branch, by_id

SCAN_SECONDS = 3.0
MOST_ADOPTED = 16
"""Answers that are taken over in one scan, at most."""
REMEMBERED_SECONDS = 5.0
"""For how long a finished answer is kept in memory, so that its readers still get the conversation's title."""

Principals = Callable[[Owner, str], Awaitable[Principal]]
"""Returns the principal of an owner and a project. Raises `AccountError` if the owner lost access."""

_log = structlog.get_logger(__name__)


class Generations:
    """The answers of one gateway process; `run` must be running while the process serves."""

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
        """`stopping` is set by the server once the process accepts no new work."""
        self.writer = secrets.token_hex(12)
        self._desk = Desk(engine, answers, self.writer, clock)
        self._messages = messages
        self._titles = titles
        self._principals = principals
        self._clock = clock
        self._writings: dict[str, Writing] = {}
        self._tasks: dict[str, asyncio.Task[str]] = {}
        self.stopping = stopping or asyncio.Event()
        """Set when the process shuts down: no more takeovers, and event streams of other processes' answers end."""

    @property
    def lease(self) -> float:
        """End of a lease that begins now, in Unix seconds."""
        return self._clock() + LEASE_SECONDS

    def live(self, message_id: str) -> LiveAnswer | None:
        """Return an answer that this process writes, or finished less than `REMEMBERED_SECONDS` ago."""
        writing = self._writings.get(message_id)
        return None if writing is None else writing.live

    def begin(self, owner: Owner, message: Message) -> None:
        """Start writing an answer whose lease this process holds."""
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
        """Stop an answer if this process writes it."""
        if (writing := self._writings.get(message_id)) is not None:
            writing.stop()

    async def titled(self, message: Message) -> str:
        """Wait for the title that the conversation gets after this answer; empty if it gets none."""
        if (task := self._tasks.get(message.id)) is not None:
            await asyncio.wait({task})
            return "" if task.cancelled() else task.result()
        return ""

    async def run(self) -> None:
        """Take over answers whose lease has expired, until cancelled."""
        while not self.stopping.is_set():
            try:
                for message_id in await self._desk.answers.abandoned(self._clock(), MOST_ADOPTED):
                    claim = await self._desk.answers.claim(message_id, self.writer, self.lease, self._clock())
                    if claim is not None:
                        self._adopt(claim)
            except StoreUnavailable as error:
                _log.warning("can't search for abandoned answers", reason=str(error))
            await asyncio.sleep(SCAN_SECONDS)

    async def close(self) -> None:
        """Stop writing and release the leases, so that another process continues the answers."""
        self.stopping.set()
        for task in self._tasks.values():
            task.cancel()
        await asyncio.gather(*self._tasks.values(), return_exceptions=True)

    def _adopt(self, claim: Claim) -> None:
        _log.info("took over an abandoned answer", answer=claim.message.id, text=len(claim.message.text))
        self.begin(claim.owner, claim.message)

    async def _write(self, writing: Writing) -> str:
        """Write an answer to its end; return the title that its conversation got after it, or an empty string."""
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
            _log.warning("a conversation got no title", reason=str(error))
            return ""

    async def _leave(self, message_id: str) -> None:
        try:
            await asyncio.shield(self._desk.answers.release(message_id, self.writer))
        except StoreUnavailable:
            _log.warning("an answer's lease was not released and must expire", answer=message_id)

    def _forget(self, message_id: str, writing: Writing) -> None:
        if self._writings.get(message_id) is writing:
            del self._writings[message_id]
            del self._tasks[message_id]

    async def _turns(self, owner: Owner, answer: Message) -> Sequence[Turn]:
        tree = by_id(await self._messages.all(owner, answer.conversation))
        ids = [each.id for each in branch(tree, answer.parent)]
        whole = by_id(await self._messages.branch(owner, answer.conversation, ids))
        return turns_of([whole[each] for each in ids if each in whole])
