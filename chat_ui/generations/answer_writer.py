"""Writes one chat answer under a lease: calls the model, stores progress; ends it or leaves it to another process."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable, Sequence
from contextlib import aclosing
from dataclasses import dataclass, replace

import structlog

from auth_billing.access.principal import Principal
from auth_billing.errors import AccountError, StoreUnavailable
from chat_ui.errors import StorageFull
from chat_ui.generations.live_answer import LiveAnswer
from chat_ui.generations.model_client import (
    AnswerEnd,
    AnswerFailed,
    AnswerRequest,
    ContinuationUnsupported,
    ModelClient,
    ShuttingDown,
    StepUpdate,
    TextDelta,
    Turn,
)
from chat_ui.history.conversation_images import ConversationImages
from chat_ui.history.limits import MAX_ANSWER_CHARS
from chat_ui.history.records import (
    AnswerError,
    AnswerStore,
    Message,
    ModelSettings,
    Progress,
    QueueStatus,
    Role,
    State,
    TokenUsage,
)
from chat_ui.history.steps import MAX_STEPS, REASONING, Step, bounded, ended, step_bytes
from chat_ui.history.storage import AnswerBytes, text_bytes
from router.timings import DEFAULT_TIMINGS, Timings
from runtime.retry import Backoff

IDLE_INTERVALS = 3
"""Intervals without new text after which the lease is renewed anyway."""

_log = structlog.get_logger(__name__)


@dataclass(frozen=True)
class WriterContext:
    """Dependencies of all answer writers of a process. `writer` is this process's random name as holder of leases."""

    model_client: ModelClient
    answers: AnswerStore
    writer: str
    images: ConversationImages
    timings: Timings = DEFAULT_TIMINGS

    @property
    def lease(self) -> float:
        """Unix time at which the lease of an answer ends if this process takes or renews the lease now."""
        return time.time() + self.timings.answer_lease


class AnswerWriter:
    """Writes one answer. `run` calls `turns` for the prompt and `principal` for the payer when it starts."""

    def __init__(
        self,
        context: WriterContext,
        message: Message,
        counted: AnswerBytes,
        turns: Callable[[], Awaitable[Sequence[Turn]]],
        principal: Callable[[], Awaitable[Principal]],
    ) -> None:
        self.bytes = counted
        self.live = LiveAnswer(message, attempt=message.attempt)
        self._context = context
        self._turns = turns
        self._principal = principal
        self._usage_before = message.usage or TokenUsage()
        self._cost_before = message.cost or 0
        self._finish_reason = ""
        self._stored_length = 0
        self._stored_steps: list[Step] = []
        self._position_stored = False
        self._stopping = asyncio.Event()
        if message.text:
            # Chat templates strip trailing spaces, and the model then generates them again: avoid doubling.
            partial_text = message.text.rstrip()
            self.live.pieces, self.live.length = [partial_text], len(partial_text)
            self.live.steps = {each.number: each for each in message.steps}
        if message.text or message.steps:
            self.live.attempt += 1  # readers may have seen more than was stored: a new attempt makes them reload

    def stop(self) -> None:
        """Request that the answer end as stopped, with its text so far; `run` does that, this call does not wait."""
        self._stopping.set()

    async def run(self) -> Message | None:
        """Call the model and write the answer; return the stored final message, `None` if another process continues it.

        While the answer grows, progress is stored and the lease renewed.
        """
        generating = asyncio.create_task(self._generate())
        renewing = asyncio.create_task(self._renew_lease())
        stopping = asyncio.create_task(self._stopping.wait())
        try:
            await asyncio.wait({generating, renewing, stopping}, return_when=asyncio.FIRST_COMPLETED)
            ended = await self._outcome(generating, renewing)
        finally:
            for task in (generating, renewing, stopping):
                task.cancel()
            await asyncio.gather(generating, renewing, stopping, return_exceptions=True)
            if self.live.final is None:
                self.live.released = True
            self.live.changes.notify()
        return ended

    async def _outcome(self, generating: asyncio.Task[None], renewing: asyncio.Task[None]) -> Message | None:
        if renewing.done():
            renewing.result()  # this task only ends when the lease is lost
            return None
        error: BaseException | None = None
        if not generating.done():
            generating.cancel()  # the model is cancelled before any reader sees the end
            await asyncio.gather(generating, return_exceptions=True)
            state = State.STOPPED
        else:
            error = generating.exception()
            state = State.DONE if error is None else State.FAILED
        if isinstance(error, ShuttingDown):
            return None
        renewing.cancel()
        return await self._store_final(self._final_message(state, error))

    async def _generate(self) -> None:
        principal, turns = await self._principal(), list(await self._turns())
        if self.live.length:
            partial_turn = Turn(Role.ASSISTANT, self.live.text)
            try:
                await self._stream(
                    principal, AnswerRequest(self._remaining_settings(), [*turns, partial_turn], continues=True)
                )
                return
            except ContinuationUnsupported:
                _log.info("an answer is generated again from the start", answer=self.live.message.id)
                self.live.restart()
                self.bytes.restart()
        await self._stream(principal, AnswerRequest(self._settings, turns))

    async def _stream(self, principal: Principal, request: AnswerRequest) -> None:
        async with aclosing(self._context.model_client.answer(principal, request)) as events:  # type: ignore[type-var]
            async for event in events:
                match event:
                    case QueueStatus():
                        self.live.waiting = event
                        self.live.changes.notify()
                    case StepUpdate():
                        await self._put_step(event)
                    case TextDelta():
                        await self._append(event)
                    case AnswerEnd():
                        self._record_usage(event.usage, event.cost)
                        self._finish_reason = event.finish_reason
                if self.live.length > MAX_ANSWER_CHARS:
                    self._finish_reason = "length"
                    return

    async def _append(self, event: TextDelta) -> None:
        self._record_first_token()
        self._record_usage(event.usage, event.cost)
        if event.text:
            await self.bytes.add(text_bytes(event.text))
            self.live.add(event.text)

    async def _put_step(self, event: StepUpdate) -> None:
        self._record_usage(event.usage, event.cost)
        step, steps = bounded(event.step), self.live.steps
        if step.kind == REASONING:
            self._record_first_token()
        if step.number not in steps and len(steps) == MAX_STEPS:
            _log.warning("a step is not stored: the answer has too many", answer=self.live.message.id, step=step.number)
            return
        before = steps.get(step.number)
        await self.bytes.add(step_bytes([step]) - (0 if before is None else step_bytes([before])))
        await self._context.images.keep(self.bytes.owner, self.live.message.conversation, step)
        self.live.put_step(step)

    def _record_first_token(self) -> None:
        if self.live.first_token_seconds is None and self.live.message.first_token_seconds is None:
            self.live.first_token_seconds = self._elapsed

    def _record_usage(self, usage: TokenUsage, cost: int) -> None:
        self.live.usage = self._usage_before + usage
        self.live.cost = self._cost_before + cost

    async def _renew_lease(self) -> None:
        """Renew the lease and store progress, until the lease is lost."""
        idle = 0
        while True:
            await asyncio.sleep(self._context.timings.answer_progress_interval)
            idle += 1
            has_position = self.live.waiting is not None and not self._position_stored
            is_stored = self.live.length == self._stored_length and self._steps == self._stored_steps
            if is_stored and not has_position and idle < IDLE_INTERVALS:
                continue
            idle = 0
            try:
                stop = await self._store_progress()
            except StoreUnavailable as error:
                _log.warning("an answer's progress was not stored", reason=str(error))
                continue
            if stop is None:
                return
            if stop:
                self.stop()

    async def _store_progress(self) -> bool | None:
        live, length, steps = self.live, self.live.length, self._steps
        progress = Progress(waiting=live.waiting)
        self._position_stored = live.waiting is not None
        if length != self._stored_length or steps != self._stored_steps or live.attempt != live.message.attempt:
            progress = Progress(
                text=live.text,
                state=live.state,
                attempt=live.attempt,
                usage=live.usage,
                cost=live.cost,
                first_token_seconds=live.first_token_seconds,
                steps=steps,
            )
        context = self._context
        stop = await context.answers.renew(live.message.id, context.writer, context.lease, progress)
        self._stored_length, self._stored_steps = length, steps
        return stop

    def _final_message(self, state: State, error: BaseException | None) -> Message:
        live = self.live
        first = live.message.first_token_seconds
        return replace(
            live.message,
            text=live.text,
            state=state,
            attempt=live.attempt,
            error=None if error is None else _answer_error(error),
            finish_reason=self._finish_reason or None,
            steps=ended(live.steps.values()),
            usage=live.usage if live.usage != TokenUsage() else None,
            cost=live.cost if live.cost or live.usage != TokenUsage() else None,
            seconds=self._elapsed,
            first_token_seconds=first if first is not None else live.first_token_seconds,
            waiting=None,
        )

    async def _store_final(self, message: Message) -> Message | None:
        """Store the final message, retrying until the store answers; `None` if the lease was lost meanwhile."""
        backoff = Backoff()
        while True:
            try:
                stored = await self._context.answers.finish(message, self._context.writer)
            except StoreUnavailable as error:
                _log.warning("an answer's end was not stored, retrying", reason=str(error))
                await backoff.sleep()
                continue
            if stored:
                self.live.final = message
            return message if stored else None

    @property
    def _steps(self) -> list[Step]:
        return list(self.live.steps.values())

    @property
    def _elapsed(self) -> float:
        """Seconds since the answer was requested."""
        return max(0.0, time.time() - self.live.message.created)

    @property
    def _settings(self) -> ModelSettings:
        return self.live.message.settings or ModelSettings()

    def _remaining_settings(self) -> ModelSettings:
        """The requested settings, with `max_tokens` reduced by the tokens generated already."""
        limit = self._settings.max_tokens
        return replace(
            self._settings, max_tokens=None if limit is None else max(1, limit - self._usage_before.completion_tokens)
        )


def _answer_error(error: BaseException) -> AnswerError:
    if isinstance(error, AnswerFailed):
        return AnswerError(error.code, str(error), error.retry_after)
    if isinstance(error, StorageFull):
        return AnswerError("storage_full", str(error))
    if isinstance(error, AccountError):
        _log.warning("an answer failed", reason=str(error))
        return AnswerError("unavailable", "The service is busy. Please try again in a moment.", 5)
    _log.error("an answer failed", exc_info=error)
    return AnswerError("internal_error", "Something went wrong here. Please try again.")
