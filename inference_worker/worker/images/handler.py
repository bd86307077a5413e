"""Runs image jobs in the worker: sends prompts to the engine, and its images to the gateway in order of completion.

`job_handler.py` has what all jobs share: admission, the engine's restarts, and the ends of jobs. Must not import torch.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import msgspec

from inference_worker.engine_protocol import EngineEvent, EngineRequest, ImageEvent, ImageRequest, RequestFailed
from inference_worker.errors import PromptRejected
from inference_worker.worker.engine_attempt import EngineAttempt
from inference_worker.worker.job_handler import EngineJobHandler
from router.messages import Drawn, ImagePrompt, PromptBounds, Task, Usage


@dataclass(eq=False)
class ImageAttempt(EngineAttempt):
    """One attempt at an image job: which images are drawn already."""

    missing: set[int] = field(default_factory=set)
    """Indexes of the images that are not drawn yet."""

    def remaining(self, request: EngineRequest) -> EngineRequest:
        """Return `request` without the images already drawn, to be submitted to a restarted engine."""
        if not isinstance(request, ImageRequest):
            return request
        return msgspec.structs.replace(request, drawn=sorted(set(range(request.n)) - self.missing))

    @property
    def finished(self) -> bool:
        """Whether all images of the job are drawn."""
        return self.request is not None and not self.missing

    @property
    def usage(self) -> Usage:
        """Usage of the job so far: number of images released to the gateway, by size, earlier attempts included."""
        drawn = self.request.n - len(self.missing) if isinstance(self.request, ImageRequest) else 0
        units = {self.request.size: drawn} if isinstance(self.request, ImageRequest) and drawn else {}
        return Usage(prompt_tokens=0, units=units)

    @property
    def digest(self) -> str:
        """Digest of generated token ids for the usage record: always "", because an image job has none."""
        return ""


class ImageHandler(EngineJobHandler[ImageAttempt]):
    """Job handler of a worker whose model draws: runs image jobs in the engine."""

    task = Task.IMAGE
    attempt_type = ImageAttempt
    max_token_bytes = 0
    prompt_bounds = PromptBounds()

    async def _prepare(self, attempt: ImageAttempt) -> None:
        job, prompt = attempt.job, attempt.job.prompt
        if not isinstance(prompt, ImagePrompt):
            raise PromptRejected("This model draws images only.", "model")
        sizes = self._ready.image_sizes
        if prompt.size not in sizes:
            raise PromptRejected(f"Invalid 'size': this model draws {', '.join(sizes)}.", "size")
        attempt.missing = set(range(job.n)).difference(job.ended)
        attempt.request = ImageRequest(
            id=attempt.attempt_id,
            prompt=prompt.prompt,
            size=prompt.size,
            seed=job.sampling.seed,
            n=job.n,
            drawn=job.ended,
        )

    def _handle_event(self, attempt: ImageAttempt, event: EngineEvent) -> None:
        if not isinstance(event, ImageEvent) or event.index not in attempt.missing:
            return  # drawn a second time, after an engine crash
        attempt.missing.remove(event.index)
        self.tokens += 1
        drawn = Drawn(job_id=attempt.job.id, attempt_id=attempt.attempt_id, start=event.index, images=[event.image])
        self._outbox.put(attempt.job.reply_to, drawn)
        if not attempt.missing:
            self._metrics.finished("stop")
            self._finish(attempt)

    def _fail_as_reported(self, attempt: ImageAttempt, failed: RequestFailed) -> None:
        if failed.refused is not None:
            self.fail(attempt, failed.refused, failed.message, "prompt")
        else:
            super()._fail_as_reported(attempt, failed)
