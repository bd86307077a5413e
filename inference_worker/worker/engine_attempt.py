"""Tracks a worker's attempts at jobs in the engine: engine requests, and what was released to the gateway."""

from __future__ import annotations

import hashlib
from abc import abstractmethod
from dataclasses import dataclass, field

import msgspec

from inference_worker.engine_protocol import EngineRequest, GenerationRequest
from inference_worker.worker.text.output_text import OutputText
from router.consumer.attempts import Attempt
from router.messages import Job, Usage


@dataclass(eq=False)
class EngineAttempt(Attempt):
    """One attempt at a job that runs in the engine; the attempt id is also the id of the engine request.

    An attempt with several engine requests numbers them: `ATTEMPT_ID/NUMBER`.
    """

    request: EngineRequest | None = None
    """The engine request; `None` until the job is prepared."""
    awaits_permission: bool = False
    """Whether the job has crashed an engine or a worker, and its gateway has not decided yet whether it runs again."""

    @property
    def finished(self) -> bool:
        """Whether the answer is complete: no choice or input of the job is outstanding. False in this base class."""
        return False

    @property
    def in_engine(self) -> bool:
        """Whether the engine computes for the job while the job has a slot. True in this base class."""
        return True

    def outstanding(self) -> list[EngineRequest]:
        """Return the job's engine requests without the part that is computed, to be submitted to a restarted engine.

        Empty until the job is prepared.
        """
        return [] if self.request is None else [self.remaining(self.request)]

    @abstractmethod
    def remaining(self, request: EngineRequest) -> EngineRequest:
        """Return `request` without what the engine already computed of it; each kind of attempt implements this.

        The worker submits the result to a restarted engine.
        """


@dataclass(eq=False)
class GenerationAttempt(EngineAttempt):
    """One attempt at a text generation job: the output text and the released tokens of each choice."""

    outputs: list[OutputText] = field(default_factory=list)
    ids: list[list[int]] = field(default_factory=list)
    """Per choice, the token ids released to the gateway, including those of earlier attempts."""
    cached_tokens: int = 0
    """Prompt tokens that the first attempt found in the prefix cache."""
    first_token_at: float | None = None
    """Monotonic time of the first token of this attempt."""
    last_token_at: float | None = None
    continues_text: bool = False
    """Whether it continues a text that a provider sent without token ids."""
    full: list[int] = field(default_factory=list)
    """Choices that have no token left to generate after a provider's text."""

    def remaining(self, request: EngineRequest) -> EngineRequest:
        """Return `request` so that it continues after all generated tokens, including those that are not yet released.

        The worker submits the result to a restarted engine.
        """
        if not isinstance(request, GenerationRequest) or self.last_token_at is None:
            return request
        known = [ids + output.held_ids for ids, output in zip(self.ids, self.outputs, strict=True)]
        ended = [choice for choice, output in enumerate(self.outputs) if output.finished]
        sampling = msgspec.structs.replace(request.sampling, prompt_logprobs=None)
        return msgspec.structs.replace(request, delivered=known, ended=ended, sampling=sampling)

    def resume(self, job: Job) -> None:
        """Set this new attempt's state (token ids, ended choices) to what earlier attempts at `job` delivered.

        Call it once `outputs` is set.
        """
        self.ids = [job.delivered_ids(choice)[:] for choice in range(job.n)]
        self.cached_tokens = job.cached_tokens
        for choice in job.ended:
            self.outputs[choice].finished = True

    @property
    def finished(self) -> bool:
        """Whether all choices of the generation job have ended."""
        return bool(self.outputs) and all(output.finished for output in self.outputs)

    @property
    def usage(self) -> Usage:
        """Usage of the job so far: tokens of the prompt, and the released tokens of all choices."""
        prompt_tokens = self.request.prompt_tokens if self.request else 0
        return Usage(
            prompt_tokens=prompt_tokens,
            completion_tokens=sum(map(len, self.ids)),
            reasoning_tokens=sum(
                min(output.reasoning_tokens, len(ids)) for output, ids in zip(self.outputs, self.ids, strict=False)
            ),
            cached_tokens=min(self.cached_tokens, prompt_tokens),
        )

    @property
    def digest(self) -> str:
        """SHA-256 (hex) of the token ids released so far, as compact JSON with one list per choice: `[[1,2],[3]]`.

        The usage record has it, to be compared with what was delivered.
        """
        return hashlib.sha256(msgspec.json.encode(self.ids)).hexdigest()
