"""Creates the engine of a model that scores, and defines that of encoders: a batch of pairs of texts, or texts."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial

import torch
from torch import Tensor

from inference_worker.engine.input_batches.batching import PendingInput
from inference_worker.engine.input_batches.engine import InputEngine
from inference_worker.engine.loading.dtypes import weight_dtype
from inference_worker.engine.loading.kernel_conversion import convert_to_kernels
from inference_worker.engine.scheduling.memory_pool import MemoryPool
from inference_worker.engine.scoring.answer_engine import AnswerScoringEngine
from inference_worker.engine.scoring.loading import load_pair_scorer, load_reward_model
from inference_worker.engine.scoring.scorer import PairScorer
from inference_worker.engine_protocol import ScoreEvent, ScoreRequest
from inference_worker.errors import ModelError
from inference_worker.model_files.model_source import ModelSource
from inference_worker.model_files.scoring_folder import ScoringConfig, ScoringHead, read_config
from inference_worker.settings import EngineSettings


class PairScoringEngine(InputEngine[ScoreRequest, ScoreEvent]):
    """An engine that scores queued pairs, or the labels of queued texts, one batch per step. Not thread-safe."""

    def __init__(self, model: PairScorer, settings: EngineSettings, activation: Callable[[Tensor], Tensor]) -> None:
        """Create an engine for a loaded model; `activation` is its activation function.

        Raises:
            ModelError: `max_model_len` exceeds the model's positions.
        """
        super().__init__(settings, model.module, max_tokens=model.positions, positions=model.positions)
        self._model = model
        self._activation = activation
        self.vocab_size = model.vocab_size

    def _compute(self, request_inputs: Sequence[tuple[ScoreRequest, PendingInput]]) -> list[Tensor]:
        logits = self._model.logits([request.inputs[pending.index] for request, pending in request_inputs])
        return [
            each if request.raw else self._activation(each)
            for (request, _), each in zip(request_inputs, logits, strict=True)
        ]

    def _event(self, request: ScoreRequest, index: int, result: Tensor) -> ScoreEvent:
        return ScoreEvent(request=request.id, index=index, scores=result.tolist())


def load_scoring_engine(
    source: ModelSource, settings: EngineSettings, pool: MemoryPool | None = None
) -> PairScoringEngine | AnswerScoringEngine:
    """Load the classifier, cross-encoder or reward model `source`; return an engine of texts, of pairs or of answers.

    The KV cache of a reward model has memory of its own, or blocks that `pool` lends; an encoder has none.

    Raises:
        ModelError: the model can't be loaded.
    """
    config = read_config(source.path, settings.step_tag)
    is_encoder = config.head in (ScoringHead.PAIR, ScoringHead.LABELS)
    supported = {"auto", "none"} if is_encoder else {"auto", "none", "int8"}
    if settings.quantization not in supported:
        raise ModelError(f"quantization {settings.quantization}: this model has one of {', '.join(sorted(supported))}")
    device = torch.device(settings.device)
    # Default to float32: scores are compared with those of other runs.
    dtype = weight_dtype("float32" if settings.dtype == "auto" else settings.dtype, device)
    if is_encoder:
        return PairScoringEngine(load_pair_scorer(source.path, dtype, device), settings, _activation(config))
    model, head = load_reward_model(source, config.head, dtype, device)
    if settings.quantization == "int8":
        quantised, _ = convert_to_kernels(model, source, settings)
        return AnswerScoringEngine(quantised, head, settings, dtype, sigmoid=config.sigmoid, pool=pool)
    return AnswerScoringEngine(model, head, settings, dtype, sigmoid=config.sigmoid, pool=pool)


def _activation(config: ScoringConfig) -> Callable[[Tensor], Tensor]:
    if config.sigmoid:
        return torch.sigmoid
    return partial(torch.softmax, dim=-1) if config.head is ScoringHead.LABELS else torch.clone
