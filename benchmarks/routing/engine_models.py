"""A `ModelPort` on an engine in this process: the model without queue, so that a decision's own time is measured."""

from __future__ import annotations

import time
from collections.abc import AsyncGenerator, Sequence
from itertools import count
from pathlib import Path

from assistant.model_port import Embeddings, ModelCallFailed, ModelPiece, ModelRequest
from inference_worker.engine.engine import Engine
from inference_worker.engine_protocol import TokenEvent
from inference_worker.errors import PromptRejected
from inference_worker.settings import EngineSettings
from inference_worker.tokenizer.tokenizer_files import read_text_files
from inference_worker.worker.text.processor import ModelLimits, TextProcessor
from router.messages import ChatPrompt, Job, SamplingParams, Usage

DEADLINE = 600.0
"""Seconds of a job; the engine has no deadline."""


class EngineModels:
    """Port to one model, which answers requests for any name, one at a time: the engine steps between the pieces."""

    def __init__(self, engine: Engine, processor: TextProcessor) -> None:
        self._engine = engine
        self._processor = processor
        ready = engine.ready()
        self._limits = ModelLimits(ready.max_model_len, ready.vocab_size)
        self._numbers = count()

    @classmethod
    def load(cls, settings: EngineSettings) -> EngineModels:
        """Load the model of `settings`, with the tokenizer and chat template beside it."""
        processor = TextProcessor.of(read_text_files(Path(settings.model)))
        processor.warm_up()
        return cls(Engine.from_settings(settings), processor)

    def close(self) -> None:
        """Stop the text processor's threads and process."""
        self._processor.close()

    async def generate(self, request: ModelRequest) -> AsyncGenerator[ModelPiece]:
        """Yield the pieces of the answer; closing aborts it in the engine.

        Raises:
            ModelCallFailed: the model can't take the prompt or the grammar, or the engine failed.
        """
        job = _job(f"r{next(self._numbers)}", request)
        try:
            prepared = await self._processor.prepare(job, job.id, self._limits)
        except PromptRejected as error:
            raise ModelCallFailed(str(error)) from error
        output = self._processor.open_output(job, 0)
        self._engine.add(prepared)
        generated = cached = 0
        try:
            while self._engine.has(job.id):
                for event in self._step(job.id):
                    generated += event.tokens
                    cached = cached or event.cached_tokens
                    release = output.push(event)
                    if release is not None:
                        yield ModelPiece(release.text, release.calls or (), release.ids)
        finally:
            self._engine.abort(job.id)
        usage = Usage(prompt_tokens=len(prepared.prompt_ids), completion_tokens=generated, cached_tokens=cached)
        yield ModelPiece(usage=usage)

    async def embed(self, model: str, texts: Sequence[str]) -> Embeddings:
        """Raise `ModelCallFailed`: the engine generates."""
        raise ModelCallFailed(f"{model} is not loaded")

    def _step(self, request: str) -> list[TokenEvent]:
        events = [event for event in self._engine.step() if event.request == request]
        if failures := self._engine.failures():
            raise ModelCallFailed(failures[0].message)
        return events


def _job(name: str, request: ModelRequest) -> Job:
    now = time.time()
    return Job(
        id=name,
        model=request.model,
        tenant="benchmark",
        reply_to="benchmark",
        created=now,
        deadline=now + DEADLINE,
        prompt=ChatPrompt(
            messages=[*request.messages], tools=[*request.tools] or None, tool_choice=request.tool_choice
        ),
        sampling=SamplingParams(seed=0, temperature=request.temperature, max_tokens=request.max_tokens),
        grammar=request.grammar,
    )
