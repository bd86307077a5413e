"""Runs embedding jobs: sends tokenised inputs to the engine and its vectors to the gateway, in order of completion.

`job_handler.py` has what all jobs share: admission, the engine's restarts, and the ends of jobs. Must not import torch.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import msgspec

from inference_worker.engine_protocol import EmbeddingRequest, EngineEvent, EngineRequest, VectorEvent
from inference_worker.worker.embedding.processor import MAX_TOKEN_BYTES, EmbeddingProcessor
from inference_worker.worker.engine_attempt import EngineAttempt
from inference_worker.worker.job_handler import EngineJobHandler, HandlerContext
from router.messages import Embedded, Task, Usage


@dataclass(eq=False)
class EmbeddingAttempt(EngineAttempt):
    """One attempt at an embedding job: which inputs are embedded already."""

    tokens: dict[int, int] = field(default_factory=dict)
    """Number of tokens by index, for the inputs not embedded yet."""
    embedded_tokens: int = 0
    """Tokens of the embedded inputs, including those of earlier attempts."""

    def remaining(self, request: EngineRequest) -> EngineRequest:
        """Return `request` without the inputs already embedded, to be submitted to a restarted engine."""
        if not isinstance(request, EmbeddingRequest):
            return request
        embedded = [index for index in range(len(request.inputs)) if index not in self.tokens]
        return msgspec.structs.replace(request, embedded=embedded)

    @property
    def finished(self) -> bool:
        """Whether all inputs are embedded."""
        return self.request is not None and not self.tokens

    @property
    def usage(self) -> Usage:
        """Usage so far: the tokens of the inputs whose vectors were released."""
        return Usage(prompt_tokens=self.embedded_tokens)

    @property
    def digest(self) -> str:
        """Always "": an embedding job has no generated ids to check."""
        return ""


class EmbeddingHandler(EngineJobHandler[EmbeddingAttempt]):
    """Job handler of a worker whose model computes embeddings: runs embedding jobs in the engine."""

    task = Task.EMBED
    attempt_type = EmbeddingAttempt
    max_token_bytes = MAX_TOKEN_BYTES

    def __init__(self, text: EmbeddingProcessor, context: HandlerContext[EmbeddingAttempt]) -> None:
        super().__init__(context)
        self._text = text
        self.prompt_bounds = text.bounds

    async def _prepare(self, attempt: EmbeddingAttempt) -> None:
        request: EmbeddingRequest = await self._text.prepare(attempt.job, attempt.attempt_id, self._ready)
        tokens = {index: len(ids) for index, ids in enumerate(request.inputs)}
        attempt.embedded_tokens = sum(tokens.pop(index) for index in request.embedded)
        attempt.tokens = tokens
        attempt.request = request

    def _handle_event(self, attempt: EmbeddingAttempt, event: EngineEvent) -> None:
        if not isinstance(event, VectorEvent) or event.index not in attempt.tokens:
            return  # embedded a second time, after an engine crash
        tokens = attempt.tokens.pop(event.index)
        attempt.embedded_tokens += tokens
        self.tokens += tokens
        embedded = Embedded(
            job_id=attempt.job.id,
            attempt_id=attempt.attempt_id,
            start=event.index,
            vectors=[event.vector],
            tokens=tokens,
        )
        self._outbox.put(attempt.job.reply_to, embedded)
        if not attempt.tokens:
            self._metrics.finished("stop")
            self._finish(attempt)
