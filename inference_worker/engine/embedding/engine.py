"""Engine of an embedding model: in each step it computes the vectors of one batch of queued texts' token ids."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec
import torch
from torch import Tensor

from inference_worker.engine.embedding import encoder
from inference_worker.engine.embedding.encoder import Encoder
from inference_worker.engine.embedding.pooling import truncated
from inference_worker.engine.input_batches.batching import PendingInput
from inference_worker.engine.input_batches.engine import InputEngine
from inference_worker.engine.loading.dtypes import weight_dtype
from inference_worker.engine_protocol import EmbeddingRequest, Ready, VectorEvent
from inference_worker.errors import ModelError
from inference_worker.model_files.embedding_folder import read_config
from inference_worker.model_files.model_source import ModelSource
from inference_worker.settings import EngineSettings


class EmbeddingEngine(InputEngine[EmbeddingRequest, VectorEvent]):
    """An engine that embeds queued inputs, one batch per step, with one encoder model. Not thread-safe."""

    def __init__(self, model: Encoder, settings: EngineSettings) -> None:
        """Create an engine for a loaded model.

        Raises:
            ModelError: `max_model_len` exceeds the model's positions.
        """
        super().__init__(settings, model.module, max_tokens=model.max_tokens, positions=model.positions)
        self._model = model
        self.vocab_size = model.vocab_size

    @classmethod
    def load_model(cls, source: ModelSource, settings: EngineSettings) -> EmbeddingEngine:
        """Load the embedding model `source` and return an engine of it, ready for requests.

        Raises:
            ModelError: the model can't be loaded.
        """
        if settings.quantization not in ("auto", "none"):
            raise ModelError(f"quantization {settings.quantization}: encoders are served as they are")
        device = torch.device(settings.device)
        # By default sums, norms and softmax stay in float32: vectors are compared with those of other machines.
        dtype = weight_dtype("float32" if settings.dtype == "auto" else settings.dtype, device)
        products = weight_dtype(settings.dtype, device)
        return cls(encoder.load(source.path, read_config(source.path), dtype, products, device), settings)

    def ready(self) -> Ready:
        """Return the message that reports the loaded model, its dimensions and the engine's limits to the worker."""
        dtype = str(self._model.products).removeprefix("torch.")
        return msgspec.structs.replace(super().ready(), dimensions=self._model.dimensions, dtype=dtype)

    def _compute(self, request_inputs: Sequence[tuple[EmbeddingRequest, PendingInput]]) -> list[Tensor]:
        vectors = self._model.embed([pending.ids for _, pending in request_inputs])
        pairs = zip(request_inputs, vectors, strict=True)
        return [truncated(vector, request.dimensions) for (request, _), vector in pairs]

    def _event(self, request: EmbeddingRequest, index: int, result: Tensor) -> VectorEvent:
        return VectorEvent(request=request.id, index=index, vector=result.numpy().astype("<f4").tobytes())
