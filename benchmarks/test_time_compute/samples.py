"""Samples answers to conversations on an engine in this process, many at a time."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from inference_worker.engine.engine import Engine
from inference_worker.settings import EngineSettings
from inference_worker.tokenizer.tokenizer_files import read_text_files
from inference_worker.worker.text.model_limits import ModelLimits
from inference_worker.worker.text.output_text import OutputText
from inference_worker.worker.text.processor import TextProcessor
from router.messages import ChatPrompt, Job, SamplingParams

Conversation = list[dict[str, Any]]


@dataclass
class SampledAnswer:
    """An answer of the model, and the number of its tokens."""

    text: str = ""
    tokens: int = 0


class Sampler:
    """A model in an engine of this process, without a queue."""

    def __init__(self, settings: EngineSettings) -> None:
        """Load the model of `settings`, with the tokenizer and chat template beside it."""
        self._processor = TextProcessor.of(read_text_files(Path(settings.model)))
        self._engine = Engine.from_settings(settings)
        ready = self._engine.ready()
        self._limits = ModelLimits(ready.max_model_len, ready.vocab_size)
        self._sequences = ready.max_num_seqs

    def close(self) -> None:
        """Stop the text processor's threads and process."""
        self._processor.close()

    def sample(
        self,
        conversations: Sequence[Conversation],
        sampling: SamplingParams,
        n: int,
        progress: Callable[[int], None] = lambda _: None,
    ) -> list[list[SampledAnswer]]:
        """Return `n` sampled answers to each conversation; `progress` gets the number of conversations that have them.

        Raises:
            RuntimeError: the engine failed.
        """
        answers = [[SampledAnswer() for _ in range(n)] for _ in conversations]
        outputs: dict[str, tuple[int, list[OutputText]]] = {}
        waiting = list(enumerate(conversations))[::-1]
        done = 0
        while waiting or self._engine.has_work():
            while waiting and len(outputs) * n < self._sequences:
                index, conversation = waiting.pop()
                job = _job(index, conversation, sampling, n)
                request = asyncio.run(self._processor.prepare(job, job.id, self._limits))
                self._engine.add(request)
                outputs[job.id] = (
                    index,
                    [self._processor.open_output(job, choice, request.prompt_ids) for choice in range(n)],
                )
            for event in self._engine.step():
                index, choices = outputs[event.request]
                answer = answers[index][event.choice]
                answer.tokens += len(event.token_ids)
                if (release := choices[event.choice].push(event)) is not None:
                    answer.text += release.text
            if failures := self._engine.failures():
                raise RuntimeError(failures[0].message)
            for ended in [name for name in outputs if not self._engine.has(name)]:
                del outputs[ended]
                done += 1
                progress(done)
        return answers


def _job(index: int, conversation: Conversation, sampling: SamplingParams, n: int) -> Job:
    now = time.time()
    return Job(
        id=f"s{index}",
        model="model",
        tenant="benchmark",
        reply_to="benchmark",
        created=now,
        deadline=now + 600,
        prompt=ChatPrompt(messages=conversation),
        sampling=sampling,
        n=n,
    )
