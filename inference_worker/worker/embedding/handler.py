"""Runs embedding jobs in the worker: sends tokenised inputs to the engine, and its vectors to the gateway."""

from __future__ import annotations

from inference_worker.engine_protocol import VectorEvent
from inference_worker.worker.embedding.processor import MAX_TOKEN_BYTES, EmbeddingProcessor
from inference_worker.worker.input_handler import InputAttempt, InputHandler
from inference_worker.worker.job_handler import HandlerContext
from inference_worker.worker.text.tokenisation import send_tokens
from router.messages import Embedded, Task, TokenisationPrompt


class EmbeddingHandler(InputHandler[VectorEvent]):
    """Job handler of a worker whose model computes embeddings: runs embedding jobs in the engine."""

    task = Task.EMBED
    event_type = VectorEvent
    max_token_bytes = MAX_TOKEN_BYTES
    tokenises = True

    def __init__(self, text: EmbeddingProcessor, context: HandlerContext[InputAttempt]) -> None:
        super().__init__(text, context)
        self._tokeniser = text

    async def _prepare(self, attempt: InputAttempt) -> None:
        if isinstance(prompt := attempt.job.prompt, TokenisationPrompt):
            tokens = await self._tokeniser.tokenise(prompt, self._ready)
            send_tokens(self._consumer, attempt, tokens, self._worker)
        else:
            await super()._prepare(attempt)

    def _reply(self, attempt: InputAttempt, event: VectorEvent, tokens: int) -> Embedded:
        return Embedded(
            job_id=attempt.job.id,
            attempt_id=attempt.attempt_id,
            start=event.index,
            vectors=[event.vector],
            tokens=tokens,
        )
