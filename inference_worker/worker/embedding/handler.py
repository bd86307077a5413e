"""Runs embedding jobs in the worker: sends tokenised inputs to the engine, and its vectors to the gateway."""

from __future__ import annotations

from inference_worker.engine_protocol import VectorEvent
from inference_worker.worker.embedding.processor import MAX_TOKEN_BYTES
from inference_worker.worker.input_handler import InputAttempt, InputHandler
from router.messages import Embedded, Task


class EmbeddingHandler(InputHandler[VectorEvent]):
    """Job handler of a worker whose model computes embeddings: runs embedding jobs in the engine."""

    task = Task.EMBED
    event_type = VectorEvent
    max_token_bytes = MAX_TOKEN_BYTES

    def _reply(self, attempt: InputAttempt, event: VectorEvent, tokens: int) -> Embedded:
        return Embedded(
            job_id=attempt.job.id,
            attempt_id=attempt.attempt_id,
            start=event.index,
            vectors=[event.vector],
            tokens=tokens,
        )
