"""Forwards one model's jobs to upstream providers: tries the routes in order, and retries only before the first token.

`Forwarder` is the handler of a `JobConsumer`, which acknowledges jobs and publishes usage records.
"""

from __future__ import annotations

import asyncio
import math
import time
from collections.abc import AsyncIterator, Mapping
from dataclasses import dataclass
from functools import partial

from msgspec.structs import replace
from tenacity import wait_random

from proxy import embeddings, images
from proxy.catalogue import ModelSpec
from proxy.errors import (
    FailoverError,
    RequestRefused,
    UpstreamBusy,
    UpstreamError,
    UpstreamTimeout,
    UpstreamUnreachable,
)
from proxy.forwarded_attempt import ForwardedAttempt
from proxy.metrics import ProxyMetrics
from proxy.request import body_of, path_of
from proxy.stream import ChoiceDelta, StreamParser
from proxy.upstream import Upstream
from proxy.usage import with_token_limit
from router.consumer.job_consumer import JobConsumer
from router.messages import (
    Cancelled,
    Embedded,
    EmbeddingPrompt,
    Failed,
    FailureCode,
    Finished,
    ImagePrompt,
    Job,
    Started,
    Terminal,
)
from router.transport.base import Delivery
from runtime.retry import delay_after

RETRY_WAIT = wait_random(0.125, 0.375)
"""Delay before a retry at the same upstream."""


@dataclass(frozen=True)
class Target:
    """An upstream that serves the model, and the model's name there."""

    upstream: Upstream
    model: str


class Forwarder:
    """Job handler that forwards one model's jobs to upstreams. Use on the event loop only."""

    def __init__(
        self,
        model: str,
        spec: ModelSpec,
        upstreams: Mapping[str, Upstream],
        consumer: JobConsumer[ForwardedAttempt],
        metrics: ProxyMetrics,
        *,
        worker: str,
    ) -> None:
        self._model = model
        self._spec = spec
        self._targets = [Target(upstreams[route.upstream], route.model or model) for route in spec.routes]
        self._consumer = consumer
        self._admission = consumer.admission
        self._metrics = metrics
        self._worker = worker
        self.tokens = 0
        """Estimated tokens forwarded since the start."""

    # Start of a job

    def open(self, job: Job, delivery: Delivery) -> ForwardedAttempt:
        """Create an attempt at `job`, the message `delivery`, for the job consumer; forwarding starts with `begin`."""
        return ForwardedAttempt(job, delivery, max_model_len=self._spec.max_model_len)

    async def begin(self, attempt: ForwardedAttempt) -> None:
        """Queue an opened attempt for a slot of the model, and start it if a slot is free."""
        self._admission.enqueue(attempt)
        self.admit()

    def admit(self) -> None:
        """Start waiting jobs while slots are free: each gets a task that requests its answer from upstreams."""
        while (attempt := self._admission.admit()) is not None:
            attempt.task = asyncio.create_task(self._answer(attempt))
            attempt.task.add_done_callback(partial(self._handle_task_end, attempt))
        self._metrics.load(self._admission.admitted, self._admission.waiting)

    def _handle_task_end(self, attempt: ForwardedAttempt, task: asyncio.Task[None]) -> None:
        if not task.cancelled() and (error := task.exception()) is not None:
            attempt.log.error("forwarding failed", exc_info=error)
            self.fail(attempt, FailureCode.ENGINE_ERROR, "The worker failed on this request.")

    # Requests to upstreams

    async def _answer(self, attempt: ForwardedAttempt) -> None:
        try:
            await self._try_targets(attempt)
        except UpstreamError as error:
            self._fail(attempt, error)
        else:
            self._metrics.estimated.inc(attempt.plausible_usage is None)
            self._end(attempt, Finished(job_id=attempt.job.id, attempt_id=attempt.attempt_id, usage=attempt.usage))

    async def _try_targets(self, attempt: ForwardedAttempt) -> None:
        failure: UpstreamError | None = None
        for target in self._targets:
            for retry in range(self._spec.tries):
                if target.upstream.breaker.is_open:
                    rest = math.ceil(target.upstream.breaker.retry_after)
                    reason = f"the circuit breaker of {target.upstream.name} is open for {rest} s"
                    failure = failure or UpstreamBusy(reason, rest)
                    break
                if retry:
                    await asyncio.sleep(delay_after(retry, RETRY_WAIT))
                try:
                    await self._request(attempt, target)
                    return
                except FailoverError as error:
                    if attempt.begun:
                        raise
                    failure = error
                    if not error.transient:
                        break
        raise failure or UpstreamUnreachable("no upstream")

    async def _request(self, attempt: ForwardedAttempt, target: Target) -> None:
        """Request the answer from one upstream, and update its circuit breaker."""
        breaker, outcome = target.upstream.breaker, "left"
        breaker.begin_request()
        try:
            async with asyncio.timeout(target.upstream.spec.timeouts.total):
                match attempt.job.prompt:
                    case EmbeddingPrompt() as prompt:
                        await self._embed(attempt, target, prompt)
                    case ImagePrompt():
                        await self._draw(attempt, target)
                    case _:
                        await self._stream(attempt, target)
            outcome = "finished"
        except TimeoutError:
            outcome = UpstreamTimeout.outcome
            raise UpstreamTimeout("the whole answer took too long") from None
        except UpstreamError as error:
            outcome = error.outcome
            attempt.log.warning("upstream failed", upstream=target.upstream.name, failure=outcome, reason=error.reason)
            if error.retry_after is not None:
                breaker.open_for(error.retry_after)
            elif error.counts_as_failure:
                breaker.record_failure()
            raise
        finally:
            if outcome == "left":
                breaker.record_cancellation()
            elif outcome == UpstreamTimeout.outcome:
                breaker.record_failure()
            self._metrics.upstream_requests(target.upstream.name, outcome).inc()

    async def _stream(self, attempt: ForwardedAttempt, target: Target) -> None:
        spec = target.upstream.spec
        body = body_of(with_token_limit(attempt.job, attempt.max_model_len), spec, target.model)
        parser = StreamParser.of(attempt.job.n)
        events = target.upstream.stream(path_of(attempt.job), body)
        timeout = spec.timeouts.first_event
        try:
            while (data := await _next(events, timeout)) is not None:
                timeout = spec.timeouts.between_events
                target.upstream.breaker.record_success()
                attempt.accepted = True
                for piece in parser.parse(data):
                    self._send(attempt, piece)
                attempt.reported_usage = parser.usage
        except FailoverError as error:
            if not parser.finished:
                raise
            attempt.log.info("upstream failed after its answer", upstream=target.upstream.name, reason=error.reason)
        finally:
            await events.aclose()  # type: ignore[attr-defined]  # it is a generator
        if not parser.finished:
            raise UpstreamUnreachable("the stream ended before the answer was complete")

    async def _embed(self, attempt: ForwardedAttempt, target: Target, prompt: EmbeddingPrompt) -> None:
        body = body_of(attempt.job, target.upstream.spec, target.model)
        timeout = target.upstream.spec.timeouts.first_event
        try:
            async with asyncio.timeout(timeout):
                answer = await target.upstream.post(path_of(attempt.job), body)
        except TimeoutError:
            raise UpstreamTimeout(f"no answer within {timeout:g} s") from None
        embedded = await asyncio.to_thread(embeddings.parse, answer, len(prompt.inputs), prompt.dimensions)
        target.upstream.breaker.record_success()
        attempt.accepted, attempt.reported_usage = True, embedded.usage
        self._start(attempt)
        for index, vector in enumerate(embedded.vectors):
            reply = Embedded(job_id=attempt.job.id, attempt_id=attempt.attempt_id, start=index, vectors=[vector])
            self._consumer.outbox.put(attempt.job.reply_to, reply)
        self._metrics.finished("stop")

    async def _draw(self, attempt: ForwardedAttempt, target: Target) -> None:
        job = attempt.job
        missing = [index for index in range(job.n) if index not in job.ended]
        answer = b""
        if missing:
            answer = await target.upstream.post(path_of(job), body_of(job, target.upstream.spec, target.model))
        drawn = await asyncio.to_thread(images.parse, answer, len(missing)) if missing else []
        target.upstream.breaker.record_success()
        attempt.accepted = True
        self._start(attempt)
        for index, image in zip(missing, drawn, strict=True):
            self._consumer.outbox.put(job.reply_to, attempt.release_image(index, image))
        self.tokens += len(drawn)
        self._metrics.finished("stop")

    def _start(self, attempt: ForwardedAttempt) -> None:
        self._metrics.time_to_first_token.observe(time.monotonic() - attempt.received_at)
        self._consumer.outbox.put(
            attempt.job.reply_to,
            Started(
                job_id=attempt.job.id,
                attempt_id=attempt.attempt_id,
                worker_id=self._worker,
                prompt_tokens=attempt.usage.prompt_tokens,
                delivery_count=attempt.delivery.delivery_count,
            ),
        )

    def _send(self, attempt: ForwardedAttempt, piece: ChoiceDelta) -> None:
        first, before = not attempt.begun and not any(attempt.positions), attempt.token_count.tokens
        if first:
            self._start(attempt)
        self._consumer.outbox.put(attempt.job.reply_to, attempt.release(piece), urgent=first)
        self.tokens += attempt.token_count.tokens - before
        if piece.finish is not None:
            self._metrics.finished(piece.finish)

    # End of a job

    def _fail(self, attempt: ForwardedAttempt, error: UpstreamError) -> None:
        param, code = None, error.code
        if isinstance(error, RequestRefused):
            param = error.param
            code = FailureCode.CONTEXT_LENGTH_EXCEEDED if error.too_long else FailureCode.INVALID_PARAMETER
        failed = _failed(attempt, code, error.message)
        self._end(attempt, replace(failed, param=param, retry_after=error.retry_after))

    def fail(self, attempt: ForwardedAttempt, code: FailureCode, message: str) -> None:
        """Cancel the upstream request of a job and end the job as failed with `code`; the client gets `message`."""
        self.abandon(attempt)
        self._end(attempt, _failed(attempt, code, message))

    def cancel(self, attempt: ForwardedAttempt) -> None:
        """End a job as cancelled, on its gateway's request or death, and cancel its upstream request."""
        self.abandon(attempt)
        self._end(attempt, Cancelled(job_id=attempt.job.id, attempt_id=attempt.attempt_id, usage=attempt.usage))

    def abandon(self, attempt: ForwardedAttempt) -> None:
        """Cancel the upstream request of a job that another worker will answer; sends the gateway no terminal reply."""
        if attempt.task is not None:
            attempt.task.cancel()

    def _end(self, attempt: ForwardedAttempt, terminal: Terminal) -> None:
        if attempt.ended:
            return
        self._consumer.end(attempt, terminal)
        self._metrics.ended(terminal, attempt.usage, time.monotonic() - attempt.received_at)
        self.admit()


def _failed(attempt: ForwardedAttempt, code: FailureCode, message: str) -> Failed:
    job_id, attempt_id = attempt.job.id, attempt.attempt_id
    return Failed(job_id=job_id, attempt_id=attempt_id, code=code, message=message, usage=attempt.usage)


async def _next(events: AsyncIterator[str], seconds: float) -> str | None:
    """Return the next event's data, or `None` at the end of the stream.

    Raises:
        UpstreamTimeout: no event arrived within `seconds`.
    """
    try:
        async with asyncio.timeout(seconds):
            return await anext(events, None)
    except TimeoutError:
        raise UpstreamTimeout(f"no event for {seconds:g} s") from None
