"""Engine of an image model, which the engine process steps: each step is one denoising step of one image.

Cancellations take effect between denoising steps. Requests take turns image by image.
"""

from __future__ import annotations

import hashlib
from collections import deque
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import partial

import structlog
import torch

from inference_worker.engine.images.pipeline import Pipeline
from inference_worker.engine.images.stepped_call import SteppedCall
from inference_worker.engine.loading.dtypes import weight_dtype
from inference_worker.engine_protocol import EngineLoad, ImageEvent, ImageRequest, Ready, RequestFailed
from inference_worker.errors import ModelError, PromptRejected
from inference_worker.model_files.model_source import ModelSource
from inference_worker.settings import EngineSettings

log = structlog.get_logger(__name__)


def image_seed(seed: int, index: int) -> int:
    """Return the 63-bit random seed with which image `index` of a request with `seed` is drawn.

    Seeds of different images are unrelated, and the same at each worker.
    """
    digest = hashlib.sha256(f"{seed}:{index}".encode()).digest()
    return int.from_bytes(digest[:8], "little") >> 1


@dataclass
class _Pending:
    """A request, and the indexes of its images that are not drawn yet."""

    request: ImageRequest
    indexes: deque[int]


class ImageEngine:
    """An engine that draws queued images, one at a time, with one pipeline. Not thread-safe."""

    def __init__(self, pipeline: Pipeline, settings: EngineSettings) -> None:
        """Create an engine for a loaded pipeline."""
        self._pipeline = pipeline
        self._settings = settings
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="pipeline")
        self._pending: deque[_Pending] = deque()
        """Waiting requests; the first one is being drawn if `_drawing` is set."""
        self._drawing: SteppedCall[bytes] | None = None
        self._failures: list[RequestFailed] = []
        self._steps = self._images = 0

    @classmethod
    def load_model(cls, source: ModelSource, settings: EngineSettings) -> ImageEngine:
        """Load the diffusers pipeline `source` and return an engine of it, ready for requests.

        Raises:
            ModelError: the pipeline can't be served.
        """
        if settings.quantization not in ("auto", "none"):
            raise ModelError(f"quantization {settings.quantization}: pipelines are served as they are")
        dtype = weight_dtype(settings.dtype, torch.device(settings.device))
        return cls(Pipeline.load(source.path, settings, dtype), settings)

    def ready(self) -> Ready:
        """Return the message that reports the pipeline's image sizes and longest prompt to the worker."""
        return Ready(
            max_model_len=self._pipeline.max_prompt_tokens,
            vocab_size=0,
            max_num_seqs=self._settings.max_num_seqs,
            kv_blocks=0,
            block_size=self._settings.block_size,
            device=self._settings.device,
            dtype=self._settings.dtype,
            attention="diffusers",
            eos_token_ids=[],
            image_sizes=self._pipeline.image_sizes,
        )

    def add(self, request: ImageRequest) -> None:
        """Queue a request's images still to be drawn; the next call of `failures` reports a prompt that is too long."""
        try:
            self._pipeline.check_prompt(request.prompt)
        except PromptRejected as error:
            self._failures.append(RequestFailed(request=request.id, message=error.message, refused=error.code))
            return
        indexes = deque(index for index in range(request.n) if index not in request.drawn)
        if indexes:
            self._pending.append(_Pending(request, indexes))

    def abort(self, request: str, choice: int | None = None) -> None:
        """Stop drawing the images of request `request`, and drop those that wait; unknown ids are ignored.

        `choice` is ignored too, because an image request has no choices.
        """
        del choice
        if self._drawing is not None and self._pending[0].request.id == request:
            self._drawing.stop()
            self._drawing = None
        self._pending = deque(each for each in self._pending if each.request.id != request)

    def step(self) -> list[ImageEvent]:
        """Do one denoising step of one image; return its PNG event if that was its last step, else an empty list.

        Failed requests are reported by `failures`.
        """
        pending = self._pending[0]
        self._steps += 1
        if self._drawing is None:
            self._drawing = self._begin(pending.request, pending.indexes[0])
        self._drawing.advance()
        return self._end(pending, self._drawing) if self._drawing.ended else []

    def has_work(self) -> bool:
        """Return whether images are waiting or being drawn, so that `step` should be called."""
        return len(self._pending) > 0

    def load(self) -> EngineLoad:
        """Return the engine's load for the worker's metrics: requests and denoising steps."""
        running = min(1, len(self._pending))
        return EngineLoad(running=running, waiting=len(self._pending) - running, steps=self._steps)

    def failures(self) -> list[RequestFailed]:
        """Return and clear the list of requests that failed since the last call, each with its id and the reason."""
        failures, self._failures = self._failures, []
        return failures

    def _begin(self, request: ImageRequest, index: int) -> SteppedCall[bytes]:
        seed = image_seed(request.seed, index)
        return SteppedCall(self._thread, partial(self._pipeline.draw, request.prompt, request.size, seed))

    def _end(self, pending: _Pending, drawing: SteppedCall[bytes]) -> list[ImageEvent]:
        self._drawing = None
        request = pending.request
        try:
            image = drawing.result
        except torch.AcceleratorError:
            raise
        except PromptRejected as error:
            self._fail(RequestFailed(request=request.id, message=error.message, refused=error.code))
            return []
        except Exception as error:
            log.exception("request failed in the pipeline", request=request.id)
            self._fail(RequestFailed(request=request.id, message=repr(error), in_step=True))
            return []
        self._images += 1
        index = pending.indexes.popleft()
        self._pending.popleft()
        if pending.indexes:
            self._pending.append(pending)
        return [ImageEvent(request=request.id, index=index, image=image)]

    def _fail(self, failed: RequestFailed) -> None:
        self._failures.append(failed)
        self.abort(failed.request)
