"""Scores of a folder's model by our text side and engine, without a worker."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

from inference_worker.engine.scoring.answer_engine import AnswerScoringEngine
from inference_worker.engine.scoring.engine import PairScoringEngine, load_scoring_engine
from inference_worker.engine_protocol import ScoreEvent, ScoreRequest
from inference_worker.model_files.model_source import resolve
from inference_worker.settings import EngineSettings
from inference_worker.worker.scoring.processor import ScoringProcessor
from router.messages import ScorePrompt, TextOptions
from tests.fakes.jobs import make_job


@dataclass
class Scores:
    """A loaded model."""

    text: ScoringProcessor
    engine: PairScoringEngine | AnswerScoringEngine

    async def prepared(self, prompt: ScorePrompt, id: str = "a", **options: Any) -> ScoreRequest:
        """The engine request of a prompt."""
        return await self.text.prepare(make_job(prompt=prompt, text=TextOptions(**options)), id, self.engine.ready())

    async def __call__(self, contexts: list[Any], candidates: list[Any], **fields: Any) -> list[list[float]]:
        """The scores of each candidate, in order."""
        request = await self.prepared(ScorePrompt(contexts=contexts, candidates=candidates, **fields))
        return [scores for _, scores in sorted(self.run(request))]

    def run(self, *requests: ScoreRequest) -> list[tuple[int, list[float]]]:
        """The index and the scores of each input, in order of completion."""
        for request in requests:
            self.engine.add(request)
        events: list[ScoreEvent] = []
        while self.engine.has_work():
            events += self.engine.step()
        assert self.engine.failures() == []
        return [(event.index, event.scores) for event in events]


def load(folder: Path, step_tag: str = "", **settings: Any) -> Scores:
    """Load the model in `folder` as a worker does, from its files alone."""
    source = resolve(str(folder), step_tag=step_tag)
    values = EngineSettings(model=str(folder), step_tag=step_tag, **settings)
    return Scores(ScoringProcessor.of(source.path, step_tag), load_scoring_engine(source, values))
