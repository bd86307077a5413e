"""Runs text generation jobs: sends tokenised prompts to the engine and its tokens to the gateway as deltas.

`job_handler.py` has what all jobs share: admission, the engine's restarts, and the ends of jobs.
"""

from __future__ import annotations

import time

from inference_worker.engine_protocol import EngineEvent, GenerationRequest, RequestFailed, TokenEvent
from inference_worker.worker.engine_job import GenerationJob
from inference_worker.worker.job_handler import EngineJobHandler, HandlerContext
from inference_worker.worker.text.output_text import Release
from inference_worker.worker.text.processor import ModelLimits, TextProcessor
from inference_worker.worker.text.prompt_echo import prompt_echo, prompt_logprobs
from router.messages import Delta, FailureCode, Job, PromptBounds, Task
from router.transport.base import Delivery


class GenerationHandler(EngineJobHandler[GenerationJob]):
    """Job handler of a worker whose model generates text."""

    task = Task.GENERATE

    def __init__(self, text: TextProcessor, context: HandlerContext[GenerationJob]) -> None:
        super().__init__(context)
        self._text = text

    @property
    def max_token_bytes(self) -> int:
        """UTF-8 bytes of the longest token."""
        return self._text.tokenizer.max_token_bytes

    @property
    def prompt_bounds(self) -> PromptBounds:
        """Coefficients of an upper bound on a prompt's tokens."""
        return self._text.bounds

    def open(self, job: Job, delivery: Delivery) -> GenerationJob:
        """Create a new attempt at `job`."""
        return GenerationJob(job, delivery)

    async def _prepare(self, running: GenerationJob) -> None:
        job = running.job
        limits = ModelLimits(self._ready.max_model_len, self._ready.vocab_size)
        request = await self._text.prepare(job, running.attempt_id, limits)
        running.outputs = [self._text.open_output(job, choice) for choice in range(job.n)]
        running.resume(job)
        running.request = request

    def _on_started(self, running: GenerationJob) -> None:
        if running.job.text.echo and not running.job.begun and isinstance(running.request, GenerationRequest):
            echo = prompt_echo(self._text.tokenizer, running.job, running.attempt_id, running.request.prompt_ids)
            self._outbox.put(running.job.reply_to, echo)

    def _handle_event(self, running: GenerationJob, event: EngineEvent) -> None:
        if not isinstance(event, TokenEvent) or event.choice >= len(running.outputs):
            return
        if event.prompt is not None:
            for reply in prompt_logprobs(self._text.tokenizer, running.job, running.attempt_id, event.prompt):
                self._outbox.put(running.job.reply_to, reply)
            if not event.token_ids and event.finish_reason is None:
                return
        self._observe(running, event)
        self.tokens += len(event.token_ids)
        if not event.position and not running.job.begun:
            running.cached_tokens = max(running.cached_tokens, event.cached_tokens)
        release = running.outputs[event.choice].push(event)
        if release is None:
            return
        first_of_choice = len(running.ids[event.choice]) == running.delivered_tokens(event.choice)
        first_of_job = not any(running.ids)
        running.add_released(event.choice, release)
        delta = _delta(running, event.choice, release, cached=running.usage.cached_tokens if first_of_job else 0)
        self._outbox.put(running.job.reply_to, delta, urgent=first_of_choice)
        if release.finish is not None:
            self._metrics.finished(release.finish)
            if event.finish_reason is None:  # ended by a stop string, which the engine can't detect
                self._engine.abort(running.attempt_id, event.choice)
        if running.finished:
            self._finish(running)

    def _fail_as_reported(self, running: GenerationJob, failed: RequestFailed) -> None:
        grammar = running.request.grammar if isinstance(running.request, GenerationRequest) else None
        if grammar is None or not failed.in_grammar:
            super()._fail_as_reported(running, failed)
            return
        message = f"Invalid '{grammar.param}': {failed.message}"
        self.fail(running, FailureCode.INVALID_PARAMETER, message, grammar.param)

    def _observe(self, running: GenerationJob, event: TokenEvent) -> None:
        now = time.monotonic()
        if running.last_token_at is None:
            running.first_token_at = now
            self._metrics.time_to_first_token.observe(now - running.received_at)
        elif running.job.n == 1 and event.token_ids:
            self._metrics.inter_token_latency.observe((now - running.last_token_at) / len(event.token_ids))
        running.last_token_at = now

    def _count_finished(self, running: GenerationJob) -> None:
        super()._count_finished(running)
        now = time.monotonic()
        longest = max(map(len, running.ids))
        if running.first_token_at is not None and longest > 1 and not running.job.begun:
            self._metrics.time_per_output_token.observe((now - running.first_token_at) / (longest - 1))


def _delta(running: GenerationJob, choice: int, release: Release, *, cached: int) -> Delta:
    return Delta(
        job_id=running.job.id,
        attempt_id=running.attempt_id,
        choice=choice,
        start=release.start,
        token_ids=release.ids,
        text=release.text,
        logprobs=release.logprobs,
        tool_calls=release.calls,
        finish_reason=release.finish,
        cached_tokens=cached,
        stop_reason=release.stopped_by,
    )
