"""Writes one answer: calls the model, collects its text, stores progress, and ends in exactly one final state."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable, Sequence
from contextlib import aclosing
from dataclasses import dataclass, replace

import structlog

from auth_billing.access.principal import Principal
from auth_billing.errors import AccountError, StoreUnavailable
from auth_billing.retry import exponential_delay
from chat_ui.generations.engine import (
    Ask,
    AskFailed,
    CannotContinue,
    Ended,
    Engine,
    EngineStopping,
    Text,
    Turn,
)
from chat_ui.generations.live import LiveAnswer
from chat_ui.history.bounds import LONGEST_ANSWER
from chat_ui.history.records import (
    AnswerError,
    AnswerStore,
    Message,
    ModelSettings,
    Owner,
    Progress,
    Role,
    State,
    TokenUsage,
    Waiting,
)

LEASE_SECONDS = 10.0
"""Duration of a writer's lease; after it an answer without renewal counts as abandoned."""
KEEP_SECONDS = 1.0
"""Interval of storing progress and renewing the lease while text arrives."""
SILENT_KEEPS = 3
"""Intervals without new text after which the lease is renewed anyway."""

_log = structlog.get_logger(__name__)


@dataclass(frozen=True)
class Desk:
    """What all answers of a process share. `writer` is a random name of this process, which its leases carry."""

    engine: Engine
    answers: AnswerStore
    writer: str
    clock: Callable[[], float] = time.time


class Writing:
    """Writes one answer. `turns` and `principal` are called when `run` starts."""

    def __init__(
        self,
        desk: Desk,
        owner: Owner,
        message: Message,
        turns: Callable[[], Awaitable[Sequence[Turn]]],
        principal: Callable[[], Awaitable[Principal]],
    ) -> None:
        self.owner = owner
        self.live = LiveAnswer(message, attempt=message.attempt)
        self._desk = desk
        self._turns = turns
        self._principal = principal
        self._before = message.usage or TokenUsage()
        self._cost_before = message.cost or 0
        self._finish_reason = ""
        self._told = 0
        self._place_told = False
        self._stopping = asyncio.Event()
        if message.text:
            # Chat templates strip trailing spaces, and the model then generates them again: avoid doubling.
            begun = message.text.rstrip()
            self.live.pieces, self.live.length = [begun], len(begun)
            self.live.attempt += 1  # readers may have seen more than was stored: a new attempt makes them reload

    def stop(self) -> None:
        """Stop the answer and keep its text so far."""
        self._stopping.set()

    async def run(self) -> Message | None:
        """Write the answer to its end and return the stored message; `None`: another process continues it."""
        reading = asyncio.create_task(self._read())
        keeping = asyncio.create_task(self._keep())
        stopping = asyncio.create_task(self._stopping.wait())
        try:
            await asyncio.wait({reading, keeping, stopping}, return_when=asyncio.FIRST_COMPLETED)
            ended = await self._outcome(reading, keeping)
        finally:
            for task in (reading, keeping, stopping):
                task.cancel()
            await asyncio.gather(reading, keeping, stopping, return_exceptions=True)
            if self.live.ended is None:
                self.live.left = True
            self.live.wake()
        return ended

    async def _outcome(self, reading: asyncio.Task[None], keeping: asyncio.Task[None]) -> Message | None:
        if keeping.done():
            keeping.result()  # this task only ends when the lease is lost
            return None
        error: BaseException | None = None
        if not reading.done():
            reading.cancel()  # the model is cancelled before any reader sees the end
            await asyncio.gather(reading, return_exceptions=True)
            state = State.STOPPED
        else:
            error = reading.exception()
            state = State.DONE if error is None else State.FAILED
        if isinstance(error, EngineStopping):
            return None
        keeping.cancel()
        return await self._finish(self._ended(state, error))

    async def _read(self) -> None:
        principal, turns = await self._principal(), list(await self._turns())
        if self.live.length:
            begun = Turn(Role.ASSISTANT, self.live.text)
            try:
                await self._ask(principal, Ask(self._rest(), [*turns, begun], continues=True))
                return
            except CannotContinue:
                _log.info("an answer is generated again from the start", answer=self.live.message.id)
                self.live.begin_again()
        await self._ask(principal, Ask(self._settings, turns))

    async def _ask(self, principal: Principal, ask: Ask) -> None:
        async with aclosing(self._desk.engine.answer(principal, ask)) as saying:  # type: ignore[type-var]
            async for said in saying:
                match said:
                    case Waiting():
                        self.live.waiting = said
                        self.live.wake()
                    case Text():
                        self._take(said)
                    case Ended():
                        self._count(said.usage, said.cost)
                        self._finish_reason = said.finish_reason
                if self.live.length > LONGEST_ANSWER:
                    self._finish_reason = "length"
                    return

    def _take(self, said: Text) -> None:
        if self.live.first_token_seconds is None and self.live.message.first_token_seconds is None:
            self.live.first_token_seconds = self._elapsed
        self._count(said.usage, said.cost)
        if said.text:
            self.live.add(said.text)

    def _count(self, usage: TokenUsage, cost: int) -> None:
        self.live.usage = self._before + usage
        self.live.cost = self._cost_before + cost

    async def _keep(self) -> None:
        """Renew the lease and store progress, until the lease is lost."""
        silent = 0
        while True:
            await asyncio.sleep(KEEP_SECONDS)
            silent += 1
            has_place = self.live.waiting is not None and not self._place_told
            if self.live.length == self._told and not has_place and silent < SILENT_KEEPS:
                continue
            silent = 0
            try:
                stop = await self._tell()
            except StoreUnavailable as error:
                _log.warning("an answer's progress was not stored", reason=str(error))
                continue
            if stop is None:
                return
            if stop:
                self.stop()

    async def _tell(self) -> bool | None:
        live, told = self.live, self.live.length
        progress = Progress(waiting=live.waiting)
        self._place_told = live.waiting is not None
        if told != self._told or live.attempt != live.message.attempt:
            progress = Progress(
                text=live.text,
                state=live.state,
                attempt=live.attempt,
                usage=live.usage,
                cost=live.cost,
                first_token_seconds=live.first_token_seconds,
            )
        until = self._desk.clock() + LEASE_SECONDS
        stop = await self._desk.answers.keep(live.message.id, self._desk.writer, until, progress)
        self._told = told
        return stop

    def _ended(self, state: State, error: BaseException | None) -> Message:
        live = self.live
        first = live.message.first_token_seconds
        return replace(
            live.message,
            text=live.text,
            state=state,
            attempt=live.attempt,
            error=None if error is None else _in_words(error),
            finish_reason=self._finish_reason or None,
            usage=live.usage if live.usage != TokenUsage() else None,
            cost=live.cost if live.usage != TokenUsage() else None,
            seconds=self._elapsed,
            first_token_seconds=first if first is not None else live.first_token_seconds,
            waiting=None,
        )

    async def _finish(self, message: Message) -> Message | None:
        """Store the final message, retrying until the store answers; `None` if the lease was lost meanwhile."""
        tries = 0
        while True:
            try:
                kept = await self._desk.answers.finish(message, self._desk.writer)
            except StoreUnavailable as error:
                _log.warning("an answer's end was not stored, retrying", reason=str(error))
                await asyncio.sleep(exponential_delay(tries))
                tries += 1
                continue
            if kept:
                self.live.ended = message
            return message if kept else None

    @property
    def _elapsed(self) -> float:
        """Seconds since the answer was requested."""
        return max(0.0, self._desk.clock() - self.live.message.created)

    @property
    def _settings(self) -> ModelSettings:
        return self.live.message.settings or ModelSettings()

    def _rest(self) -> ModelSettings:
        """The requested settings, with `max_tokens` reduced by the tokens generated already."""
        most = self._settings.max_tokens
        return replace(
            self._settings, max_tokens=None if most is None else max(1, most - self._before.completion_tokens)
        )


def _in_words(error: BaseException) -> AnswerError:
    if isinstance(error, AskFailed):
        return AnswerError(error.code, str(error), error.retry_after)
    if isinstance(error, AccountError):
        _log.warning("an answer failed", reason=str(error))
        return AnswerError("unavailable", "The service is busy. Please try again in a moment.", 5)
    _log.error("an answer failed", exc_info=error)
    return AnswerError("internal_error", "Something went wrong here. Please try again.")
