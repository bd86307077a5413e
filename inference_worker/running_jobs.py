"""A job in the engine: what was asked of it, and what of its answer has been released to the gateway."""

from __future__ import annotations

import hashlib
from abc import abstractmethod
from dataclasses import dataclass, field

import msgspec

from inference_worker.engine_protocol import EngineRequest, GenerationRequest
from inference_worker.text.output_text import OutputText, Release
from router.consumer.taken_jobs import TakenJob
from router.messages import Job, Usage


@dataclass(eq=False)
class EngineJob(TakenJob):
    """One attempt at one job. `attempt` is also its id in the engine."""

    request: EngineRequest | None = None
    """Set when it has been prepared."""

    @property
    def finished(self) -> bool:
        """Whether there is nothing left to do."""
        return False

    @abstractmethod
    def rest(self, request: EngineRequest) -> EngineRequest:
        """What of `request` is still to be done."""


@dataclass(eq=False)
class RunningJob(EngineJob):
    """One attempt at a job that is answered with generated text."""

    outputs: list[OutputText] = field(default_factory=list)
    ids: list[list[int]] = field(default_factory=list)
    """Per choice, the token ids that were released to the gateway, by earlier attempts too."""
    cached_tokens: int = 0
    """As the attempt that read the prompt first found them."""
    first_token: float | None = None
    last_token: float | None = None

    def rest(self, request: EngineRequest) -> EngineRequest:
        """Go on after all tokens that are known here, those not yet released too."""
        if not isinstance(request, GenerationRequest) or self.last_token is None:
            return request
        known = [ids + output.held_ids for ids, output in zip(self.ids, self.outputs, strict=True)]
        ended = [choice for choice, output in enumerate(self.outputs) if output.finished]
        sampling = msgspec.structs.replace(request.sampling, prompt_logprobs=None)
        return msgspec.structs.replace(request, delivered=known, ended=ended, sampling=sampling)

    def resume(self, job: Job) -> None:
        """Begin after what `job` says was delivered; `outputs` must be there."""
        self.ids = [job.delivered[choice][:] if choice < len(job.delivered) else [] for choice in range(job.n)]
        self.cached_tokens = job.cached_tokens
        for choice in job.ended:
            self.outputs[choice].finished = True

    def delivered(self, choice: int) -> int:
        """How many tokens of a choice earlier attempts have released."""
        return len(self.job.delivered[choice]) if choice < len(self.job.delivered) else 0

    def accept(self, choice: int, release: Release) -> None:
        """Count what is released to the gateway."""
        self.ids[choice].extend(release.ids)

    @property
    def finished(self) -> bool:
        """Whether all choices have ended."""
        return bool(self.outputs) and all(output.finished for output in self.outputs)

    @property
    def usage(self) -> Usage:
        """Tokens so far: those released, on every choice."""
        prompt_tokens = self.request.prompt_tokens if self.request else 0
        return Usage(
            prompt_tokens=prompt_tokens,
            completion_tokens=sum(map(len, self.ids)),
            cached_tokens=min(self.cached_tokens, prompt_tokens),
        )

    @property
    def digest(self) -> str:
        """SHA-256 (hex) of the released ids as compact JSON, a list per choice: `[[1,2],[3]]`."""
        return hashlib.sha256(msgspec.json.encode(self.ids)).hexdigest()
