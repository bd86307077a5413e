"""Runs text generation jobs in the worker: sends tokenised prompts to the engine, and its tokens to the gateway.

`job_handler.py` has what all jobs share: admission, the engine's restarts, and the ends of jobs.
"""

from __future__ import annotations

import time

from msgspec.structs import replace

from inference_worker.engine_protocol import EngineEvent, GenerationRequest, RequestFailed, TokenEvent
from inference_worker.errors import PromptRejected
from inference_worker.worker.engine_attempt import GenerationAttempt
from inference_worker.worker.job_handler import EngineJobHandler, HandlerContext
from inference_worker.worker.text.model_limits import ModelLimits
from inference_worker.worker.text.output_text import Release
from inference_worker.worker.text.processor import TextProcessor
from inference_worker.worker.text.prompt_echo import prompt_echo, prompt_logprobs
from inference_worker.worker.text.tokenisation import send_tokens
from router.messages import Delta, FailureCode, Job, Task, TokenisationPrompt

NOT_IN_GRAMMAR = "The provider that was answering was lost, and its text does not match the request's grammar."


class GenerationHandler(EngineJobHandler[GenerationAttempt]):
    """Job handler of a worker whose model generates text: runs generation jobs in the engine."""

    task = Task.GENERATE
    attempt_type = GenerationAttempt
    tokenises = True

    def __init__(self, text: TextProcessor, context: HandlerContext[GenerationAttempt]) -> None:
        super().__init__(context)
        self._text = text
        self.max_token_bytes = text.tokenizer.max_token_bytes
        self.prompt_bounds = text.bounds
        self.reads_images = text.reads_images

    async def _prepare(self, attempt: GenerationAttempt) -> None:
        if attempt.job.search is not None:
            raise PromptRejected("This worker runs no searches.", "test_time_compute")
        limits = ModelLimits(self._ready.max_model_len, self._ready.vocab_size)
        if isinstance(prompt := attempt.job.prompt, TokenisationPrompt):
            tokens = await self._text.tokenise(attempt.job, prompt, limits)
            send_tokens(self._consumer, attempt, tokens, self._worker)
            return
        starts = [attempt.job.delivered_positions(choice) for choice in range(attempt.job.n)]
        job = await self._text.tokenise_delivered(attempt.job)
        request = await self._text.prepare(job, attempt.attempt_id, limits)
        if any(attempt.job.text_positions):
            attempt.continues_text = True
            job, request = _within_limits(job, request, limits)
            attempt.full = [choice for choice in job.ended if choice not in attempt.job.ended]
        attempt.job = job
        attempt.outputs = [
            self._text.open_output(job, choice, request.prompt_ids, starts[choice]) for choice in range(job.n)
        ]
        attempt.resume(job)
        attempt.request = request

    def _on_started(self, attempt: GenerationAttempt) -> None:
        if attempt.job.text.echo and not attempt.job.begun and isinstance(attempt.request, GenerationRequest):
            echo = prompt_echo(self._text.tokenizer, attempt.job, attempt.attempt_id, attempt.request.prompt_ids)
            self._outbox.put(attempt.job.reply_to, echo)
        for choice in attempt.full:
            release = Release(attempt.outputs[choice].position, [], "", finish="length")
            self._outbox.put(attempt.job.reply_to, _delta(attempt, choice, release, cached=0))
            self._metrics.finished("length")

    def _handle_event(self, attempt: GenerationAttempt, event: EngineEvent) -> None:
        if not isinstance(event, TokenEvent) or event.choice >= len(attempt.outputs):
            return
        if event.prompt is not None:
            for reply in prompt_logprobs(self._text.tokenizer, attempt.job, attempt.attempt_id, event.prompt):
                self._outbox.put(attempt.job.reply_to, reply)
            if not event.token_ids and event.finish_reason is None:
                return
        self._observe(attempt, event)
        self.tokens += len(event.token_ids)
        if not event.position and not attempt.job.begun:
            attempt.cached_tokens = max(attempt.cached_tokens, event.cached_tokens)
        self._push(attempt, event)

    def _push(self, attempt: GenerationAttempt, event: TokenEvent) -> None:
        """Release what an event adds to the text of its choice; end the job after the last choice."""
        release = attempt.outputs[event.choice].push(event)
        if release is None:
            return
        first_of_choice = len(attempt.ids[event.choice]) == len(attempt.job.delivered_ids(event.choice))
        first_of_job = not any(attempt.ids)
        attempt.ids[event.choice].extend(release.ids)
        delta = _delta(attempt, event.choice, release, cached=attempt.usage.cached_tokens if first_of_job else 0)
        self._outbox.put(attempt.job.reply_to, delta, urgent=first_of_choice)
        if release.finish is not None:
            self._metrics.finished(release.finish)
            if event.finish_reason is None:  # ended by a stop string, which the engine can't detect
                self._engine.abort(attempt.attempt_id, event.choice)
        if attempt.finished:
            self._finish(attempt)

    def _fail_as_reported(self, attempt: GenerationAttempt, failed: RequestFailed) -> None:
        if attempt.continues_text and failed.in_grammar:
            self.fail(attempt, FailureCode.WORKER_LOST, NOT_IN_GRAMMAR)
            return
        grammar = attempt.request.grammar if isinstance(attempt.request, GenerationRequest) else None
        if grammar is None or not failed.in_grammar:
            super()._fail_as_reported(attempt, failed)
            return
        message = f"Invalid '{grammar.param}': {failed.message}"
        self.fail(attempt, FailureCode.INVALID_PARAMETER, message, grammar.param)

    def _observe(self, attempt: GenerationAttempt, event: TokenEvent) -> None:
        now = time.monotonic()
        if attempt.last_token_at is None:
            attempt.first_token_at = now
            self._metrics.time_to_first_token.observe(now - attempt.received_at)
        elif attempt.job.n == 1 and event.token_ids:
            self._metrics.inter_token_latency.observe((now - attempt.last_token_at) / len(event.token_ids))
        attempt.last_token_at = now

    def _count_finished(self, attempt: GenerationAttempt) -> None:
        super()._count_finished(attempt)
        now = time.monotonic()
        longest = max(map(len, attempt.ids))
        if attempt.first_token_at is not None and longest > 1 and not attempt.job.begun:
            self._metrics.time_per_output_token.observe((now - attempt.first_token_at) / (longest - 1))


def _within_limits(job: Job, request: GenerationRequest, limits: ModelLimits) -> tuple[Job, GenerationRequest]:
    """Cut the ids of a provider's text to the most tokens that the job may have, and end the choices that reach it."""
    rest = limits.max_model_len - len(request.prompt_ids)
    most = rest if request.sampling.max_tokens is None else request.sampling.max_tokens
    delivered = [ids[:most] for ids in job.delivered]
    ended = sorted({*job.ended, *(choice for choice, ids in enumerate(delivered) if len(ids) >= most)})
    return replace(job, delivered=delivered, ended=ended), replace(request, delivered=delivered, ended=ended)


def _delta(attempt: GenerationAttempt, choice: int, release: Release, *, cached: int) -> Delta:
    return Delta(
        job_id=attempt.job.id,
        attempt_id=attempt.attempt_id,
        choice=choice,
        start=release.start,
        token_ids=release.ids,
        text=release.text,
        reasoning=release.reasoning,
        logprobs=release.logprobs,
        tool_calls=release.calls,
        finish_reason=release.finish,
        cached_tokens=cached,
        stop_reason=release.stopped_by,
    )
