"""Runs the searches of a worker's jobs: performs the commands of each `SearchDriver` and reports events to it."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Protocol

from msgspec.structs import replace

from inference_worker.engine_protocol import GenerationRequest, TokenEvent
from inference_worker.errors import EngineDied
from inference_worker.search.driver import SearchDriver
from inference_worker.search.events import Choose, Command, Confirm, Extend, Score
from inference_worker.worker.engine_client import EngineClient
from inference_worker.worker.search.attempt import SearchAttempt
from inference_worker.worker.search.continuations import Continuations, final_event
from inference_worker.worker.search.verifier import score_paths
from inference_worker.worker.text.processor import ModelLimits, TextProcessor
from router.consumer.job_consumer import JobConsumer
from router.errors import PublishError, TooManyAncestors
from router.messages import FailureCode
from router.producer.child_jobs import ChildJobs
from router.producer.errors import DeadlinePassed, GenerationError, JobFailed

VERIFIER = "test_time_compute.verifier"
"""Request field that names the verifier."""


class SearchPort(Protocol):
    """What a job handler does for its searches."""

    def deliver(self, attempt: SearchAttempt, event: TokenEvent) -> None:
        """Send the chosen answer, as the tokens of an ordinary one, and end the job."""

    def fail(self, attempt: SearchAttempt, code: FailureCode, message: str, param: str | None = None) -> None:
        """End the job as failed; the client gets `message` and `param`, the field at fault."""


class SearchRunner:
    """Runs the searches of one worker. Use it on the event loop only."""

    def __init__(
        self,
        port: SearchPort,
        text: TextProcessor,
        engine: EngineClient,
        consumer: JobConsumer[SearchAttempt],
        children: ChildJobs,
    ) -> None:
        self._port = port
        self._text = text
        self._engine = engine
        self._consumer = consumer
        self._children = children

    def start(self, attempt: SearchAttempt, limits: ModelLimits, eos_token_ids: Iterable[int]) -> None:
        """Begin the search of an attempt that has a slot, after the steps of earlier attempts; again: does nothing.

        The engine requests are in `attempt.running` afterwards, and have not been submitted.
        """
        request, search = attempt.request, attempt.job.search
        if attempt.driver is not None or attempt.finished or search is None:
            return
        if not isinstance(request, GenerationRequest):
            return
        sampling, rest = request.sampling, limits.max_model_len - request.prompt_tokens
        attempt.stop_ids = {*sampling.stop_token_ids, *(() if sampling.ignore_eos else eos_token_ids)}
        attempt.driver = SearchDriver(
            search,
            model=attempt.job.model,
            seed=sampling.seed,
            prompt_tokens=request.prompt_tokens,
            max_tokens=rest if sampling.max_tokens is None else min(rest, sampling.max_tokens),
        )
        attempt.driver.resume(attempt.steps)
        self._perform(attempt, attempt.driver.start())

    def handle(self, attempt: SearchAttempt, event: TokenEvent) -> None:
        """Add an event's tokens to their continuation; go on with the search when all of a path have ended."""
        running = attempt.running.get(event.request)
        if running is None or attempt.driver is None:
            return
        if running.push(event):
            self._engine.abort(event.request, event.choice)
        if (extended := running.result()) is not None:
            del attempt.running[event.request]
            self._submit(attempt, self._perform(attempt, attempt.driver.receive(extended)))

    def cancel(self, attempt: SearchAttempt) -> None:
        """Cancel the child jobs of an attempt."""
        self._children.cancel(attempt.job.id)

    def _perform(self, attempt: SearchAttempt, commands: Iterable[Command]) -> list[GenerationRequest]:
        """Perform commands; return the engine requests of the continuations that they ask for."""
        opened: list[GenerationRequest] = []
        for command in commands:
            match command:
                case Extend():
                    opened.append(self._open(attempt, command))
                case Score():
                    self._consumer.spawn(self._score(attempt, command), attempt)
                case Confirm(step):
                    self._consumer.outbox.put(attempt.job.reply_to, attempt.release_step(step), urgent=True)
                case Choose(ids, end):
                    delivered = len(attempt.job.delivered_ids(0))
                    attempt.outputs = [self._text.open_output(attempt.job, 0, attempt.position)]  # after the steps
                    event = final_event(attempt.attempt_id, ids, end, delivered, attempt.stop_ids)
                    self._port.deliver(attempt, event)
        return opened

    def _open(self, attempt: SearchAttempt, extend: Extend) -> GenerationRequest:
        if not isinstance(attempt.request, GenerationRequest):
            raise TypeError("only generated answers are searched for")
        attempt.opened += 1
        id_ = f"{attempt.attempt_id}/{attempt.opened}"
        opened = Continuations(id_, extend, attempt.job, attempt.request, self._text.tokenizer)
        attempt.running[id_] = opened
        return opened.request

    def _submit(self, attempt: SearchAttempt, requests: Iterable[GenerationRequest]) -> None:
        try:
            for request in requests:
                self._engine.submit(request)
        except EngineDied:
            attempt.log.debug("engine is restarting, the search goes on afterwards")

    async def _score(self, attempt: SearchAttempt, score: Score) -> None:
        """Have paths scored, and go on with the search; fail the job if they can't be."""
        job = replace(attempt.job, deadline=self._consumer.clocks.deadline(attempt.job))
        try:
            scored = await score_paths(self._children, job, attempt.delivery.headers, score, len(attempt.steps))
        except JobFailed as error:
            self._fail(attempt, error.failure, str(error), VERIFIER if error.param is None else error.param)
        except DeadlinePassed as error:
            self._fail(attempt, FailureCode.DEADLINE_EXCEEDED, str(error))
        except GenerationError as error:
            self._fail(attempt, FailureCode.WORKER_LOST, str(error))
        except TooManyAncestors:
            self._fail(attempt, FailureCode.INVALID_PARAMETER, "Models call one another too deeply.", "model")
        except PublishError as error:
            attempt.log.warning("a child job was not queued", reason=str(error))
            self._fail(attempt, FailureCode.WORKER_LOST, "The service is temporarily unavailable.")
        else:
            if not attempt.ended and attempt.driver is not None:
                self._submit(attempt, self._perform(attempt, attempt.driver.receive(scored)))

    def _fail(self, attempt: SearchAttempt, code: FailureCode, message: str, param: str | None = None) -> None:
        if not attempt.ended:
            self._port.fail(attempt, code, message, param)
