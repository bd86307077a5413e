"""Base class of the worker's handlers of jobs with several inputs, computed in any order: embeddings and scores.

`job_handler.py` has what all jobs share: admission, the engine's restarts, and the ends of jobs. Must not import torch.
"""

from __future__ import annotations

from abc import abstractmethod
from dataclasses import dataclass, field
from typing import Generic, Protocol, TypeVar

import msgspec

from inference_worker.engine_protocol import (
    EmbeddingRequest,
    EngineEvent,
    EngineRequest,
    Ready,
    ScoreEvent,
    ScoreRequest,
    VectorEvent,
)
from inference_worker.worker.engine_attempt import EngineAttempt
from inference_worker.worker.job_handler import EngineJobHandler, HandlerContext
from router.messages import Embedded, Job, PromptBounds, Scored, Usage

V = TypeVar("V", VectorEvent, ScoreEvent)


class InputProcessor(Protocol):
    """Text side of a model: tokenises and validates the inputs of jobs."""

    bounds: PromptBounds
    """Coefficients of an upper bound on the tokens of an input."""

    async def prepare(self, job: Job, request_id: str, ready: Ready) -> EmbeddingRequest | ScoreRequest:
        """Tokenise and validate the inputs of one job, and return its engine request.

        Implemented for embeddings and scores.

        Args:
            job: an embedding or score job.
            request_id: id of the engine request.
            ready: the engine's limits.

        Raises:
            PromptRejected: the model can't process the inputs or an option.
        """


@dataclass(eq=False)
class InputAttempt(EngineAttempt):
    """One attempt at a job with several inputs: which of them are done."""

    tokens: dict[int, int] = field(default_factory=dict)
    """Number of tokens by index, for the inputs not done yet."""
    done_tokens: int = 0
    """Tokens of the inputs that are done, including those of earlier attempts."""

    def remaining(self, request: EngineRequest) -> EngineRequest:
        """Return `request` without the inputs already computed, to be submitted to a restarted engine."""
        if not isinstance(request, EmbeddingRequest | ScoreRequest):
            return request
        done = [index for index in range(len(request.inputs)) if index not in self.tokens]
        return msgspec.structs.replace(request, done=done)

    @property
    def finished(self) -> bool:
        """Whether the results of all inputs of the job have been released."""
        return self.request is not None and not self.tokens

    @property
    def usage(self) -> Usage:
        """Usage of the job so far: the tokens of the inputs whose results were released to the gateway."""
        return Usage(prompt_tokens=self.done_tokens)

    @property
    def digest(self) -> str:
        """Digest of generated token ids for the usage record: always "", because embeddings and scores have none."""
        return ""


class InputHandler(EngineJobHandler[InputAttempt], Generic[V]):
    """Job handler of a worker whose jobs have several inputs: sends them to the engine and its results to gateways."""

    attempt_type = InputAttempt
    event_type: type[V]
    """Class of the engine events with results."""

    def __init__(self, text: InputProcessor, context: HandlerContext[InputAttempt]) -> None:
        super().__init__(context)
        self._text = text
        self.prompt_bounds = text.bounds

    @abstractmethod
    def _reply(self, attempt: InputAttempt, event: V, tokens: int) -> Embedded | Scored:
        """Return the reply with the result of an input that has `tokens` tokens."""

    async def _prepare(self, attempt: InputAttempt) -> None:
        request = await self._text.prepare(attempt.job, attempt.attempt_id, self._ready)
        tokens = {index: len(ids) for index, ids in enumerate(request.token_ids)}
        attempt.done_tokens = sum(tokens.pop(index) for index in request.done)
        attempt.tokens = tokens
        attempt.request = request

    def _handle_event(self, attempt: InputAttempt, event: EngineEvent) -> None:
        if not isinstance(event, self.event_type) or event.index not in attempt.tokens:
            return  # computed a second time, after an engine crash
        tokens = attempt.tokens.pop(event.index)
        attempt.done_tokens += tokens
        self.tokens += tokens
        self._outbox.put(attempt.job.reply_to, self._reply(attempt, event, tokens))
        if not attempt.tokens:
            self._metrics.finished("stop")
            self._finish(attempt)
