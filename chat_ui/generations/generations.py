"""Starts and stops the answers that a gateway process writes, and takes over answers of processes that died.

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
from chat_ui.generations.answer_writer import AnswerWriter, WriterContext
from chat_ui.generations.live_answer import LiveAnswer
from chat_ui.generations.model_client import ModelClient, Turn
from chat_ui.generations.prompt import prompt_turns
from chat_ui.generations.titles import TitleGenerator
from chat_ui.history.conversation_images import ConversationImages
from chat_ui.history.message_tree import branch, by_id
from chat_ui.history.records import AnswerStore, Claim, Message, MessageStore, Owner
from chat_ui.history.storage import AnswerBytes, StorageQuota
from router.timings import DEFAULT_TIMINGS, Timings

MAX_TAKEOVERS = 16
"""Answers that are taken over in one scan, at most."""
RETENTION_PERIOD = 5.0
"""Seconds for which a finished answer is kept in memory, so that its readers still get the conversation's title."""

Principals = Callable[[Owner, str], Awaitable[Principal]]
"""Returns the principal of an owner and a project. Raises `AccountError` if the owner lost access."""

_log = structlog.get_logger(__name__)


class Generations:
    """The answers that one gateway process writes; `run` must be running while the process serves."""

    def __init__(
        self,
        model_client: ModelClient,
        messages: MessageStore,
        answers: AnswerStore,
        titles: TitleGenerator,
        principals: Principals,
        *,
        storage: StorageQuota,
        images: ConversationImages,
        stopping: asyncio.Event | None = None,
        timings: Timings = DEFAULT_TIMINGS,
    ) -> None:
        """`stopping` is set by the server once the process accepts no new work."""
        self.writer = secrets.token_hex(12)
        self._context = WriterContext(model_client, answers, self.writer, images, timings)
        self._messages = messages
        self._titles = titles
        self._storage = storage
        self._principals = principals
        self._writers: dict[str, AnswerWriter] = {}
        self._tasks: dict[str, asyncio.Task[str]] = {}
        self.stopping = stopping or asyncio.Event()
        """Set when the process shuts down: no more takeovers, and event streams of other processes' answers end."""

    @property
    def lease(self) -> float:
        """Unix time at which the lease of an answer ends if this process takes the lease now."""
        return self._context.lease

    def live(self, message_id: str) -> LiveAnswer | None:
        """Return the in-memory answer that this process writes or ended in the last `RETENTION_PERIOD`, or `None`."""
        writer = self._writers.get(message_id)
        return None if writer is None else writer.live

    def start(self, owner: Owner, message: Message) -> None:
        """Start a task that calls the model and writes the open answer `message`, whose lease this process holds."""
        writer = AnswerWriter(
            self._context,
            message,
            AnswerBytes(self._storage, owner, message),
            partial(self._turns, owner, message),
            partial(self._principals, owner, message.project),
        )
        self._writers[message.id] = writer
        task = self._tasks[message.id] = asyncio.create_task(self._write(writer))
        loop = asyncio.get_running_loop()
        task.add_done_callback(lambda _: loop.call_later(RETENTION_PERIOD, self._forget, message.id, writer))

    def stop(self, message_id: str) -> None:
        """Stop writing the answer with this message id, keeping its text, if this process writes it."""
        if (writer := self._writers.get(message_id)) is not None:
            writer.stop()

    async def title_after(self, message: Message) -> str:
        """Wait for an answer's end; return its conversation's new title, "" if none, or another process writes it."""
        if (task := self._tasks.get(message.id)) is not None:
            await asyncio.wait({task})
            return "" if task.cancelled() else task.result()
        return ""

    async def run(self) -> None:
        """Take over unfinished answers of all processes whose lease has expired, and continue writing them.

        Runs until `stopping` is set: a background task that must run while the process serves.
        """
        while not self.stopping.is_set():
            try:
                for message_id in await self._context.answers.abandoned(time.time(), MAX_TAKEOVERS):
                    claim = await self._context.answers.claim(message_id, self.writer, self.lease, time.time())
                    if claim is not None:
                        self._take_over(claim)
            except StoreUnavailable as error:
                _log.warning("can't search for abandoned answers", reason=str(error))
            await asyncio.sleep(self._context.timings.answer_scan_interval)

    async def close(self) -> None:
        """Cancel the tasks that write answers and release the leases, so that another process continues the answers."""
        self.stopping.set()
        for task in self._tasks.values():
            task.cancel()
        await asyncio.gather(*self._tasks.values(), return_exceptions=True)

    def _take_over(self, claim: Claim) -> None:
        _log.info("took over an abandoned answer", answer=claim.message.id, text=len(claim.message.text))
        self.start(claim.owner, claim.message)

    async def _write(self, writer: AnswerWriter) -> str:
        """Write an answer to its end; return the title that its conversation got after it, or an empty string."""
        message = writer.live.message
        ended: Message | None = None
        try:
            ended = await writer.run()
        finally:
            if ended is None:
                await self._release(message.id)
        return "" if ended is None else await self._finish(writer, ended)

    async def _finish(self, writer: AnswerWriter, ended: Message) -> str:
        """Count an answer's bytes; return the title that its conversation got, or an empty string."""
        owner = writer.bytes.owner
        try:
            await writer.bytes.end(ended)
        except StoreUnavailable as error:
            _log.warning("an answer keeps the blocks that were counted for it", reason=str(error))
        try:
            return await self._titles.after_answer(owner, ended, partial(self._principals, owner, ended.project))
        except StoreUnavailable as error:
            _log.warning("a conversation got no title", reason=str(error))
            return ""

    async def _release(self, message_id: str) -> None:
        try:
            await asyncio.shield(self._context.answers.release(message_id, self.writer))
        except StoreUnavailable:
            _log.warning("an answer's lease was not released and must expire", answer=message_id)

    def _forget(self, message_id: str, writer: AnswerWriter) -> None:
        if self._writers.get(message_id) is writer:
            del self._writers[message_id]
            del self._tasks[message_id]

    async def _turns(self, owner: Owner, answer: Message) -> Sequence[Turn]:
        tree = by_id(await self._messages.all(owner, answer.conversation))
        ids = [each.id for each in branch(tree, answer.parent)]
        whole = by_id(await self._messages.find_many(owner, answer.conversation, ids))
        found = [whole[each] for each in ids if each in whole]
        blobs = {image.blob for message in found for image in message.images}
        return prompt_turns(found, await self._context.images.present(owner, blobs))
