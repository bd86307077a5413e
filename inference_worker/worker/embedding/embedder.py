"""What embedding is: inputs to the engine, its vectors to the gateway, in the order in which they are made.

How jobs get into the engine and end is `engine_jobs.py`'s business. No torch here.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import msgspec

from inference_worker.engine_protocol import EmbeddingRequest, EngineEvent, EngineRequest, VectorEvent
from inference_worker.worker.embedding.text import MAX_TOKEN_BYTES, EmbeddingText
from inference_worker.worker.engine_jobs import EngineJobs, Parts
from inference_worker.worker.running_jobs import EngineJob
from router.messages import Embedded, Job, PromptBounds, Task, Usage
from router.transport.base import Delivery


@dataclass(eq=False)
class EmbeddingJob(EngineJob):
    """One attempt at a job that is answered with vectors."""

    tokens: dict[int, int] = field(default_factory=dict)
    """By input whose vector was not yet made: how many tokens it has."""
    embedded_tokens: int = 0
    """Of vectors made, by earlier attempts too."""

    def rest(self, request: EngineRequest) -> EngineRequest:
        """The inputs without a vector."""
        if not isinstance(request, EmbeddingRequest):
            return request
        embedded = [index for index in range(len(request.inputs)) if index not in self.tokens]
        return msgspec.structs.replace(request, embedded=embedded)

    @property
    def finished(self) -> bool:
        """Whether all vectors have been made."""
        return self.request is not None and not self.tokens

    @property
    def usage(self) -> Usage:
        """Tokens of the inputs whose vectors were released."""
        return Usage(prompt_tokens=self.embedded_tokens)

    @property
    def digest(self) -> str:
        """None: there are no generated ids to be checked."""
        return ""


class Embedder(EngineJobs[EmbeddingJob]):
    """Jobs that are answered with vectors."""

    task = Task.EMBED

    def __init__(self, text: EmbeddingText, parts: Parts[EmbeddingJob]) -> None:
        super().__init__(parts)
        self._text = text

    @property
    def max_token_bytes(self) -> int:
        """See `EngineJobs`."""
        return MAX_TOKEN_BYTES

    @property
    def prompt_bounds(self) -> PromptBounds:
        """See `EngineJobs`."""
        return self._text.bounds

    def open(self, job: Job, delivery: Delivery) -> EmbeddingJob:
        """See `EngineJobs`."""
        return EmbeddingJob(job, delivery)

    async def _prepare(self, running: EmbeddingJob) -> None:
        request: EmbeddingRequest = await self._text.prepare(running.job, running.attempt, self._ready)
        tokens = {index: len(ids) for index, ids in enumerate(request.inputs)}
        running.embedded_tokens = sum(tokens.pop(index) for index in request.embedded)
        running.tokens = tokens
        running.request = request

    def _take(self, running: EmbeddingJob, event: EngineEvent) -> None:
        if not isinstance(event, VectorEvent) or event.index not in running.tokens:
            return  # the second time, after the engine had died
        tokens = running.tokens.pop(event.index)
        running.embedded_tokens += tokens
        self.tokens += tokens
        embedded = Embedded(j=running.job.id, a=running.attempt, s=event.index, vectors=[event.vector], tokens=tokens)
        self._outbox.put(running.job.reply_to, embedded)
        if not running.tokens:
            self._metrics.finished("stop")
            self._finish(running)
