"""Runs an embedding engine in the benchmark's process as the assistant's `ModelPort`, so that no queue is measured."""

from __future__ import annotations

import asyncio
import struct
import time
from collections.abc import AsyncGenerator, Sequence
from itertools import count
from pathlib import Path
from threading import Lock

from assistant.model_port import Embeddings, ModelCallFailed, ModelPiece, ModelRequest
from inference_worker.engine.embedding.engine import EmbeddingEngine
from inference_worker.engine_protocol import EmbeddingRequest
from inference_worker.model_files.model_source import resolve
from inference_worker.settings import EngineSettings
from inference_worker.worker.embedding.processor import EmbeddingProcessor
from router.messages import EmbeddingPrompt, Job, SamplingParams, Usage

DEADLINE = 600.0
"""Seconds of a job; the engine has no deadline."""


class EmbeddingModels:
    """Port to one embedding model, which answers requests for any name, one at a time."""

    def __init__(self, folder: Path) -> None:
        """Load the model in `folder`."""
        self._engine = EmbeddingEngine.load_model(resolve(str(folder)), EngineSettings(model=str(folder)))
        self._processor = EmbeddingProcessor.of(folder)
        self._numbers = count()
        self._running = Lock()

    async def generate(self, request: ModelRequest) -> AsyncGenerator[ModelPiece]:
        """Refuse to generate text, because this port has an embedding model only.

        Raises:
            ModelCallFailed: always.
        """
        raise ModelCallFailed(f"{request.model} does not generate")
        yield ModelPiece()

    async def embed(self, model: str, texts: Sequence[str]) -> Embeddings:
        """Return the vectors of `texts`, in their order, computed by the engine in this process."""
        now, name = time.time(), f"e{next(self._numbers)}"
        job = Job(
            id=name,
            model=model,
            tenant="benchmark",
            reply_to="benchmark",
            created=now,
            deadline=now + DEADLINE,
            prompt=EmbeddingPrompt(inputs=[*texts]),
            sampling=SamplingParams(seed=0),
        )
        request = await self._processor.prepare(job, name, self._engine.ready())
        vectors = await asyncio.to_thread(self._run, request)
        tokens = sum(map(len, request.inputs))
        return Embeddings([vectors[number] for number in range(len(texts))], Usage(prompt_tokens=tokens))

    def _run(self, request: EmbeddingRequest) -> dict[int, Sequence[float]]:
        """Return the vectors of a request; an abandoned one delays the next, as at a worker."""
        vectors: dict[int, Sequence[float]] = {}
        with self._running:
            self._engine.add(request)
            while self._engine.has_work():
                for event in self._engine.step():
                    vectors[event.index] = struct.unpack(f"<{len(event.vector) // 4}f", event.vector)
            if failures := self._engine.failures():
                raise ModelCallFailed(failures[0].message)
        return vectors
