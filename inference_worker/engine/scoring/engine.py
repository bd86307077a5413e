"""Engine of a cross-encoder or reward model: each step computes the scores of one batch of inputs."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from inference_worker.engine.input_batches.batching import PendingInput
from inference_worker.engine.input_batches.engine import InputEngine
from inference_worker.engine.loading.dtypes import weight_dtype
from inference_worker.engine.scoring.loading import load_scorer
from inference_worker.engine.scoring.scorer import Scorer
from inference_worker.engine_protocol import ScoreEvent, ScoreRequest
from inference_worker.errors import ModelError
from inference_worker.model_files.model_source import ModelSource
from inference_worker.model_files.scoring_folder import read_config
from inference_worker.settings import EngineSettings


class ScoringEngine(InputEngine[ScoreRequest, ScoreEvent]):
    """An engine that scores queued inputs, one batch per step, with one model. Not thread-safe."""

    def __init__(self, model: Scorer, settings: EngineSettings, *, sigmoid: bool) -> None:
        """Create an engine for a loaded model; `sigmoid`: whether its activation function is the sigmoid.

        Raises:
            ModelError: `max_model_len` exceeds the model's positions.
        """
        super().__init__(settings, max_tokens=model.positions, positions=model.positions)
        self._model = model
        self._sigmoid = sigmoid
        self.vocab_size = model.vocab_size

    @classmethod
    def load_model(cls, source: ModelSource, settings: EngineSettings) -> ScoringEngine:
        """Load the cross-encoder or reward model `source` and create its engine.

        Raises:
            ModelError: the model can't be loaded.
        """
        if settings.quantization not in ("auto", "none"):
            raise ModelError(f"quantization {settings.quantization}: models that score are served as they are")
        device = torch.device(settings.device)
        # Default to float32: scores are compared with those of other runs.
        dtype = weight_dtype("float32" if settings.dtype == "auto" else settings.dtype, device)
        config = read_config(source.path, settings.step_tag)
        return cls(load_scorer(source.path, config, dtype, device), settings, sigmoid=config.sigmoid)

    def _compute(self, request_inputs: Sequence[tuple[ScoreRequest, PendingInput]]) -> list[Tensor]:
        logits = self._model.logits([request.inputs[pending.index] for request, pending in request_inputs])
        return [
            each.sigmoid() if self._sigmoid and not request.raw else each
            for (request, _), each in zip(request_inputs, logits, strict=True)
        ]

    def _event(self, request: ScoreRequest, index: int, result: Tensor) -> ScoreEvent:
        return ScoreEvent(request=request.id, index=index, scores=result.tolist())
