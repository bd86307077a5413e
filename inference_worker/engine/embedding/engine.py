"""Engine of an embedding model: each step computes one batch of token ids to vectors; `engine_main.py` steps it.

Cancellations take effect between batches, so a batch is no larger than the token budget.
"""

from __future__ import annotations

from collections.abc import Sequence

import structlog
import torch

from inference_worker.engine.embedding import encoder
from inference_worker.engine.embedding.batching import Batcher, PendingInput
from inference_worker.engine.embedding.encoder import Encoder
from inference_worker.engine.embedding.pooling import truncated
from inference_worker.engine.loading.dtypes import weight_dtype
from inference_worker.engine_protocol import EmbeddingRequest, EngineLoad, Ready, RequestFailed, VectorEvent
from inference_worker.errors import ModelError
from inference_worker.model_files.embedding_folder import read_config
from inference_worker.model_files.model_source import ModelSource
from inference_worker.settings import EngineSettings

CPU_BATCH_TOKENS = 512
"""Maximum tokens of a batch on the CPU: larger batches are not faster, and delay cancellations and other requests."""

log = structlog.get_logger(__name__)


class EmbeddingEngine:
    """An engine that embeds queued inputs, one batch per step, with one encoder model. Not thread-safe."""

    def __init__(self, model: Encoder, settings: EngineSettings) -> None:
        """Create an engine for a loaded model.

        Raises:
            ModelError: `max_model_len` exceeds the model's positions.
        """
        self._model = model
        self._settings = settings
        self._max_tokens = _max_tokens_of(model, settings)
        most = settings.max_num_batched_tokens
        self._batcher = Batcher(min(most, CPU_BATCH_TOKENS) if settings.device == "cpu" else most)
        self._dimensions: dict[str, int | None] = {}
        self._failures: list[RequestFailed] = []
        self._tokens = self._steps = self._step_tokens = 0

    @classmethod
    def load_model(cls, source: ModelSource, settings: EngineSettings) -> EmbeddingEngine:
        """Load the embedding model `source` and create its engine.

        Raises:
            ModelError: the model can't be loaded.
        """
        if settings.quantization not in ("auto", "none"):
            raise ModelError(f"quantization {settings.quantization}: encoders are served as they are")
        device = torch.device(settings.device)
        # Default to float32: encoders are small, and vectors are compared with those of other runs.
        dtype = weight_dtype("float32" if settings.dtype == "auto" else settings.dtype, device)
        return cls(encoder.load(source.path, read_config(source.path), dtype, device), settings)

    def ready(self) -> Ready:
        """Return the message that reports the loaded model, its dimensions and the engine's limits to the worker."""
        return Ready(
            max_model_len=self._max_tokens,
            vocab_size=self._model.vocab_size,
            max_num_seqs=self._settings.max_num_seqs,
            kv_blocks=0,
            block_size=self._settings.block_size,
            device=self._settings.device,
            dtype="float32" if self._settings.dtype == "auto" else self._settings.dtype,
            attention="transformers",
            eos_token_ids=[],
            dimensions=self._model.dimensions,
        )

    def add(self, request: EmbeddingRequest) -> None:
        """Queue the inputs of a request that are not embedded yet (`request.embedded` lists the others)."""
        self._dimensions[request.id] = request.dimensions
        self._batcher.add(request.id, request.inputs, without=frozenset(request.embedded))

    def abort(self, request: str, choice: int | None = None) -> None:
        """Drop the waiting inputs of a request; unknown ids are ignored, and so is `choice`."""
        del choice
        self._batcher.drop(request)
        self._dimensions.pop(request, None)

    def step(self) -> list[VectorEvent]:
        """Embed the next batch of waiting inputs and return one event per vector; failures are in `failures`."""
        batch = self._batcher.next_batch()
        self._steps += 1
        self._tokens += sum(len(each.ids) for each in batch)
        self._step_tokens += len(batch) * len(batch[0].ids)
        return self._compute(batch)

    def has_work(self) -> bool:
        """Return whether inputs are waiting to be embedded."""
        return len(self._batcher) > 0

    def load(self) -> EngineLoad:
        """Return the engine's load for the worker's metrics: waiting requests, computed tokens and steps."""
        return EngineLoad(
            running=len(self._batcher), prompt_tokens=self._tokens, steps=self._steps, step_tokens=self._step_tokens
        )

    def failures(self) -> list[RequestFailed]:
        """Return and clear the requests that failed since the last call, each with its reason."""
        failures, self._failures = self._failures, []
        return failures

    def _compute(self, batch: Sequence[PendingInput]) -> list[VectorEvent]:
        """Compute a batch; if it fails, compute each input alone, so that only the faulty requests fail."""
        try:
            vectors = self._model.embed([each.ids for each in batch])
        except torch.AcceleratorError:
            raise
        except Exception as error:
            if len(batch) == 1:
                log.exception("request failed in the model", request=batch[0].request)
                self._fail(batch[0].request, repr(error), in_step=True)
                return []
            log.warning("batch failed, trying each input alone", inputs=len(batch), error=repr(error))
            return [event for each in batch for event in self._compute([each])]
        return [event for each, vector in zip(batch, vectors, strict=True) for event in self._event(each, vector)]

    def _event(self, pending: PendingInput, vector: torch.Tensor) -> list[VectorEvent]:
        vector = truncated(vector, self._dimensions.get(pending.request))
        if not bool(vector.isfinite().all()):
            self._fail(pending.request, "its vector is not finite")
            return []
        data = vector.numpy().astype("<f4").tobytes()
        return [VectorEvent(request=pending.request, index=pending.index, vector=data)]

    def _fail(self, request: str, message: str, *, in_step: bool = False) -> None:
        self._failures.append(RequestFailed(request=request, message=message, in_step=in_step))
        self.abort(request)


def _max_tokens_of(model: Encoder, settings: EngineSettings) -> int:
    if settings.max_model_len is None:
        return model.max_tokens
    if settings.max_model_len > model.positions:
        raise ModelError(f"max_model_len {settings.max_model_len}: the model has {model.positions} positions")
    return settings.max_model_len
