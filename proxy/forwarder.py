"""Answers one model's jobs by asking its upstreams: in their order, over again only before the first token.

The handler of a `JobConsumer`. Does not know HTTP, acknowledgements or usage records.
"""

from __future__ import annotations

import asyncio
import math
import random
import time
from collections.abc import AsyncIterator, Mapping
from dataclasses import dataclass
from functools import partial

from proxy import embeddings
from proxy.catalogue import ModelSpec
from proxy.errors import Busy, Elsewhere, RequestRefused, TooSlow, Unreachable, UpstreamError
from proxy.forwarded_job import ForwardedJob
from proxy.metrics import ProxyMetrics
from proxy.request import body_of, path_of
from proxy.stream import Piece, Reading
from proxy.upstream import Upstream
from proxy.usage import limited
from router.consumer.job_consumer import JobConsumer
from router.messages import Cancelled, Embedded, EmbeddingPrompt, Failed, FailureCode, Finished, Job, Started, Terminal
from router.transport.base import Delivery

PAUSE = 0.25
"""Seconds before the same upstream is tried again, about."""


@dataclass(frozen=True)
class Place:
    """One of the places where a model is to be had, and what it is called there."""

    upstream: Upstream
    model: str


class Forwarder:
    """One model's jobs on their way out and back. Use on the event loop only."""

    def __init__(
        self,
        model: str,
        spec: ModelSpec,
        upstreams: Mapping[str, Upstream],
        consumer: JobConsumer[ForwardedJob],
        metrics: ProxyMetrics,
        *,
        worker: str,
    ) -> None:
        self._model = model
        self._spec = spec
        self._places = [Place(upstreams[route.upstream], route.model or model) for route in spec.routes]
        self._consumer = consumer
        self._admission = consumer.admission
        self._metrics = metrics
        self._worker = worker
        self.tokens = 0
        """Tokens passed on since the start, about."""

    # A job's way in

    def open(self, job: Job, delivery: Delivery) -> ForwardedJob:
        """A fresh attempt at a job."""
        return ForwardedJob(job, delivery, max_model_len=self._spec.max_model_len)

    async def begin(self, taken: ForwardedJob) -> None:
        """Have it answered as soon as fewer than `concurrency` are; no upstream goes on where somebody else stopped."""
        if taken.job.begun:
            self.fail(taken, FailureCode.WORKER_LOST, "The worker was lost after it had begun to answer.")
            return
        self._admission.queue(taken)
        self.admit()

    def admit(self) -> None:
        """Give jobs that wait the places that are free."""
        while (taken := self._admission.admit()) is not None:
            taken.task = asyncio.create_task(self._answer(taken))
            taken.task.add_done_callback(partial(self._check, taken))
        self._metrics.load(self._admission.admitted, self._admission.waiting)

    def _check(self, taken: ForwardedJob, task: asyncio.Task[None]) -> None:
        if not task.cancelled() and (error := task.exception()) is not None:
            taken.log.error("forwarding failed", exc_info=error)
            self.fail(taken, FailureCode.ENGINE_ERROR, "The worker failed on this request.")

    # Its way through the upstreams

    async def _answer(self, taken: ForwardedJob) -> None:
        try:
            await self._ask_in_turn(taken)
        except UpstreamError as error:
            self._fail(taken, error)
        else:
            self._metrics.estimated.inc(taken.told_usage is None)
            self._end(taken, Finished(job_id=taken.job.id, attempt_id=taken.attempt, usage=taken.usage))

    async def _ask_in_turn(self, taken: ForwardedJob) -> None:
        failure: UpstreamError | None = None
        for place in self._places:
            for number in range(self._spec.tries):
                if place.upstream.breaker.open:
                    rest = math.ceil(place.upstream.breaker.rest)
                    failure = failure or Busy(f"{place.upstream.name} is left alone for {rest} s", rest)
                    break
                if number:
                    await asyncio.sleep(PAUSE * random.uniform(0.5, 1.5))  # noqa: S311 - jitter, no secret
                try:
                    await self._ask(taken, place)
                    return
                except Elsewhere as error:
                    if taken.begun:
                        raise
                    failure = error
                    if not error.passing:
                        break
        raise failure or Unreachable("no upstream")

    async def _ask(self, taken: ForwardedJob, place: Place) -> None:
        """Ask one upstream, and keep its circuit breaker's book."""
        breaker, outcome = place.upstream.breaker, "left"
        breaker.enter()
        try:
            async with asyncio.timeout(place.upstream.spec.timeouts.total):
                if isinstance(taken.job.prompt, EmbeddingPrompt):
                    await self._embed(taken, place, taken.job.prompt)
                else:
                    await self._stream(taken, place)
            outcome = "finished"
        except TimeoutError:
            outcome = TooSlow.__name__
            raise TooSlow("the whole answer took too long") from None
        except UpstreamError as error:
            outcome = type(error).__name__
            taken.log.warning("upstream failed", upstream=place.upstream.name, failure=outcome, reason=error.reason)
            if error.retry_after is not None:
                breaker.pause(error.retry_after)
            elif error.blamed:
                breaker.failed()
            raise
        finally:
            if outcome == "left":
                breaker.left()
            elif outcome == TooSlow.__name__:
                breaker.failed()
            self._metrics.upstream_requests(place.upstream.name, outcome).inc()

    async def _stream(self, taken: ForwardedJob, place: Place) -> None:
        spec = place.upstream.spec
        body = body_of(limited(taken.job, taken.max_model_len), spec, place.model)
        reading = Reading.of(taken.job.n)
        events = place.upstream.events(path_of(taken.job), body)
        limit = spec.timeouts.first_event
        try:
            while (data := await _next(events, limit)) is not None:
                limit = spec.timeouts.between_events
                place.upstream.breaker.succeeded()
                taken.asked = True
                for piece in reading.read(data):
                    self._say(taken, piece)
                taken.said = reading.usage
        except Elsewhere as error:
            if not reading.finished:
                raise
            taken.log.info("upstream failed after its answer", upstream=place.upstream.name, reason=error.reason)
        finally:
            await events.aclose()  # type: ignore[attr-defined]  # it is a generator
        if not reading.finished:
            raise Unreachable("it ended before the answer did")

    async def _embed(self, taken: ForwardedJob, place: Place, prompt: EmbeddingPrompt) -> None:
        body = body_of(taken.job, place.upstream.spec, place.model)
        seconds = place.upstream.spec.timeouts.first_event
        try:
            async with asyncio.timeout(seconds):
                answer = await place.upstream.whole(path_of(taken.job), body)
        except TimeoutError:
            raise TooSlow(f"no answer within {seconds:g} s") from None
        embedded = await asyncio.to_thread(embeddings.read, answer, len(prompt.inputs), prompt.dimensions)
        place.upstream.breaker.succeeded()
        taken.asked, taken.said = True, embedded.usage
        self._start(taken)
        for index, vector in enumerate(embedded.vectors):
            reply = Embedded(job_id=taken.job.id, attempt_id=taken.attempt, start=index, vectors=[vector])
            self._consumer.outbox.put(taken.job.reply_to, reply)
        self._metrics.finished("stop")

    def _start(self, taken: ForwardedJob) -> None:
        self._metrics.time_to_first_token.observe(time.monotonic() - taken.taken)
        self._consumer.outbox.put(
            taken.job.reply_to,
            Started(
                job_id=taken.job.id,
                attempt_id=taken.attempt,
                worker_id=self._worker,
                prompt_tokens=taken.usage.prompt_tokens,
                delivery_count=taken.delivery.delivery_count,
            ),
        )

    def _say(self, taken: ForwardedJob, piece: Piece) -> None:
        first, before = not taken.begun and not any(taken.positions), taken.count.tokens
        if first:
            self._start(taken)
        self._consumer.outbox.put(taken.job.reply_to, taken.release(piece), urgent=first)
        self.tokens += taken.count.tokens - before
        if piece.finish is not None:
            self._metrics.finished(piece.finish)

    # Ends

    def _fail(self, taken: ForwardedJob, error: UpstreamError) -> None:
        param, code, message = None, error.code, error.message
        if isinstance(error, RequestRefused):
            param = error.param
            code = FailureCode.CONTEXT_LENGTH_EXCEEDED if error.too_long else FailureCode.INVALID_PARAMETER
        self._end(
            taken,
            Failed(
                job_id=taken.job.id,
                attempt_id=taken.attempt,
                code=code,
                message=message,
                param=param,
                usage=taken.usage,
                retry_after=error.retry_after,
            ),
        )

    def fail(self, taken: ForwardedJob, code: FailureCode, message: str) -> None:
        """Close the connection and end a job as failed; `message` is for the client."""
        self.hand_back(taken)
        self._end(
            taken, Failed(job_id=taken.job.id, attempt_id=taken.attempt, code=code, message=message, usage=taken.usage)
        )

    def cancel(self, taken: ForwardedJob) -> None:
        """Close the connection and end a job because its gateway asked for it, or has gone."""
        self.hand_back(taken)
        self._end(taken, Cancelled(job_id=taken.job.id, attempt_id=taken.attempt, usage=taken.usage))

    def hand_back(self, taken: ForwardedJob) -> None:
        """Close the connection; somebody else will answer."""
        if taken.task is not None:
            taken.task.cancel()

    def _end(self, taken: ForwardedJob, terminal: Terminal) -> None:
        if taken.ended:
            return
        self._consumer.end(taken, terminal)
        self._metrics.ended(terminal, taken.usage, time.monotonic() - taken.taken)
        self.admit()


async def _next(events: AsyncIterator[str], seconds: float) -> str | None:
    """The next event's data; `None` at the end.

    Raises:
        TooSlow: none came.
    """
    try:
        async with asyncio.timeout(seconds):
            return await anext(events, None)
    except TimeoutError:
        raise TooSlow(f"nothing came for {seconds:g} s") from None
