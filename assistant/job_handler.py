"""Answers the jobs of one assistant: takes them from its `JobConsumer`, runs each in a task, and ends each once."""

from __future__ import annotations

import asyncio
import time
from functools import partial

from assistant.abilities import Abilities
from assistant.answering import Answering, started
from assistant.attempt import AssistantAttempt
from assistant.metrics import AssistantMetrics
from assistant.tools.tool import InvalidArguments, NotFound
from router.consumer.job_consumer import JobConsumer
from router.errors import PublishError, TooManyAncestors
from router.messages import Cancelled, ChatPrompt, Delta, Failed, FailureCode, Job, Reply, Terminal
from router.producer.child_jobs import parent_failure
from router.producer.errors import GenerationError
from router.transport.base import Delivery


class AssistantJobHandler:
    """Job handler of one assistant. Use on the event loop only."""

    def __init__(
        self, abilities: Abilities, consumer: JobConsumer[AssistantAttempt], metrics: AssistantMetrics, *, model: str
    ) -> None:
        self._abilities = abilities
        self._consumer = consumer
        self._admission = consumer.admission
        self._metrics = metrics
        self._model = model
        self.tokens = 0
        """Tokens of answers released since the start."""

    def open(self, job: Job, delivery: Delivery) -> AssistantAttempt:
        """Create this assistant's attempt at `job`, brought by the queue message `delivery`; `begin` starts it."""
        return AssistantAttempt(job, delivery)

    async def begin(self, attempt: AssistantAttempt) -> None:
        """Queue a job's attempt for a slot, and start it if one is free.

        Fails a job that an assistant can't answer: no chat, several answers, or one that asks for its prompt.
        """
        wanted = attempt.job.text.echo or attempt.job.sampling.prompt_logprobs is not None
        if not isinstance(attempt.job.prompt, ChatPrompt):
            self._fail(attempt, FailureCode.INVALID_PROMPT, "This model answers chats: use /v1/chat/completions.")
        elif attempt.job.n != 1:
            self._fail(attempt, FailureCode.INVALID_PARAMETER, "This model gives one answer: `n` must be 1.", "n")
        elif wanted:
            message = "This model does not return its prompt, nor log probabilities of it."
            self._fail(attempt, FailureCode.INVALID_PARAMETER, message, "prompt_logprobs")
        else:
            self._admission.enqueue(attempt)
            self.admit()

    def admit(self) -> None:
        """Start the waiting attempts while slots are free: report `Started` to the gateway and answer in a new task."""
        while (attempt := self._admission.admit()) is not None:
            self._put(attempt, started(attempt, self._abilities.worker))
            attempt.task = asyncio.create_task(self._answer(attempt))
            attempt.task.add_done_callback(partial(self._handle_task_end, attempt))
        self._metrics.load(self._model, self._admission.admitted, self._admission.waiting)

    async def _answer(self, attempt: AssistantAttempt) -> None:
        try:
            deadline = self._consumer.clocks.deadline(attempt.job)
            finished = await Answering(attempt, self._abilities, partial(self._put, attempt), deadline=deadline).run()
        except InvalidArguments as error:
            self._fail(attempt, FailureCode.INVALID_PARAMETER, str(error), error.field or "arguments")
        except NotFound as error:
            self._fail(attempt, FailureCode.INVALID_PARAMETER, str(error), "name")
        except (GenerationError, PublishError, TooManyAncestors) as error:
            self._fail(attempt, *parent_failure(error))
        else:
            self._end(attempt, finished)

    def _handle_task_end(self, attempt: AssistantAttempt, task: asyncio.Task[None]) -> None:
        if not task.cancelled() and (error := task.exception()) is not None:
            attempt.log.error("answering failed", exc_info=error)
            self.fail(attempt, FailureCode.ENGINE_ERROR, "The assistant failed on this request.")

    def _put(self, attempt: AssistantAttempt, reply: Reply) -> None:
        """Send a reply to the job's gateway; steps and the first token at once, others in the next window."""
        urgent = True
        if isinstance(reply, Delta):
            self.tokens += reply.positions if reply.step is None else 0
            if reply.step is not None:
                self._metrics.step(reply.step)
            else:
                urgent = attempt.tokens == reply.positions
        self._consumer.outbox.put(attempt.job.reply_to, reply, urgent=urgent)

    # End of a job

    def fail(self, attempt: AssistantAttempt, code: FailureCode, message: str) -> None:
        """End a job as failed: cancel its task and its child jobs, and send the terminal reply with `message`."""
        self.abandon(attempt)
        self._fail(attempt, code, message)

    def cancel(self, attempt: AssistantAttempt) -> None:
        """End a job whose gateway cancelled it or is gone: cancel its child jobs, send the terminal reply."""
        self.abandon(attempt)
        self._end(attempt, Cancelled(job_id=attempt.job.id, attempt_id=attempt.attempt_id, usage=attempt.usage))

    def abandon(self, attempt: AssistantAttempt) -> None:
        """Stop answering a job that another process will answer: cancel task and child jobs, send no terminal reply."""
        if attempt.task is not None:
            attempt.task.cancel()

    def _fail(self, attempt: AssistantAttempt, code: FailureCode, message: str, param: str | None = None) -> None:
        failed = Failed(
            job_id=attempt.job.id,
            attempt_id=attempt.attempt_id,
            code=code,
            message=message,
            param=param,
            usage=attempt.usage,
        )
        self._end(attempt, failed)

    def _end(self, attempt: AssistantAttempt, terminal: Terminal) -> None:
        if attempt.ended:
            return
        self._consumer.end(attempt, terminal)
        self._metrics.ended(self._model, terminal, attempt.usage, time.monotonic() - attempt.received_at)
        self.admit()
