"""Runs score jobs in a worker with a classifier, cross-encoder or reward model: each candidate in the engine."""

from __future__ import annotations

from inference_worker.engine_protocol import ScoreEvent
from inference_worker.worker.input_handler import InputAttempt, InputHandler
from inference_worker.worker.job_handler import HandlerContext
from inference_worker.worker.scoring.processor import MAX_TOKEN_BYTES, ScoringProcessor
from router.messages import Scored, Task


class ScoringHandler(InputHandler[ScoreEvent]):
    """Job handler of a worker with a model that scores: runs score jobs in the engine."""

    task = Task.SCORE
    event_type = ScoreEvent
    max_token_bytes = MAX_TOKEN_BYTES

    def __init__(self, text: ScoringProcessor, context: HandlerContext[InputAttempt]) -> None:
        super().__init__(text, context)
        self._scores_all = text.scores_steps or bool(text.labels)
        self.scores_pairs = text.scores_pairs
        self.labels = text.labels

    def _reply(self, attempt: InputAttempt, event: ScoreEvent, tokens: int) -> Scored:
        return Scored(
            job_id=attempt.job.id,
            attempt_id=attempt.attempt_id,
            start=event.index,
            scores=[event.scores[-1]],
            step_scores=[event.scores] if self._scores_all else [],
            tokens=tokens,
        )
