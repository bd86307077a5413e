"""Loads the draft model that the settings name: a model of the same vocabulary, or the model's own first layers."""

from __future__ import annotations

from dataclasses import dataclass, replace

import structlog
import torch

from inference_worker.engine.causal_lm import CausalLM
from inference_worker.engine.layers.decoder import Decoder
from inference_worker.engine.loading.kernel_conversion import convert_to_kernels, load_or_describe
from inference_worker.errors import UnsupportedModel
from inference_worker.model_files.model_source import ModelSource, resolve
from inference_worker.settings import EngineSettings
from inference_worker.tokenizer.tokenizer_files import read_vocabulary

log = structlog.get_logger(__name__)


@dataclass(frozen=True)
class DraftModel:
    """A draft model, and the time of its step in that of an equal step of the model, estimated from their weights."""

    model: CausalLM
    relative_cost: float


def load_draft_model(
    name: str, target: CausalLM, source: ModelSource, settings: EngineSettings, dtype: torch.dtype
) -> DraftModel:
    """Load the draft model `name` for the model `target`, of `source` and not converted yet.

    Args:
        name: a number of the model's first layers, or a model as in `EngineSettings.model`.
        settings: those of the model; they hold for the draft model too.
        dtype: number format of the weights.

    Raises:
        ModelError: the draft model can't be loaded, or can't draft for this model: another vocabulary, or no decoder
            of the engine's own definition.
    """
    draft: CausalLM
    if name.isdecimal():
        draft_source, draft = source, _first_layers(target, int(name))
    else:
        draft_source = resolve(name)
        draft = load_or_describe(draft_source, dtype, replace(settings, model=name))
        if draft.shape.vocab_size != target.shape.vocab_size or _tokens(draft_source) != _tokens(source):
            raise UnsupportedModel(f"the draft model {name} has another vocabulary than {source.path.name}")
    if not isinstance(draft, Decoder) or not isinstance(target, Decoder):
        raise UnsupportedModel("a draft model and its model must be decoders of the engine's own definition")
    relative_cost = _weights_read(draft) / _weights_read(target)
    converted, _ = convert_to_kernels(draft, draft_source, replace(settings, model=name))
    log.info("draft model loaded", draft_model=name, relative_cost=round(relative_cost, 3))
    return DraftModel(converted, relative_cost)


def _first_layers(target: CausalLM, count: int) -> Decoder:
    if not isinstance(target, Decoder) or not 0 < count < target.shape.layers:
        raise UnsupportedModel(f"{count} layers of a model of {target.shape.layers} can't be its draft model")
    return target.first_layers(count)


def _tokens(source: ModelSource) -> list[bytes]:
    return read_vocabulary(source.path).tokens


def _weights_read(model: Decoder) -> int:
    """Return the number of weights that a step reads: all but the embedding's, unless it is the head too."""
    embedding = 0 if model.tied_embeddings else model.model.embed_tokens.weight.numel()
    return sum(parameter.numel() for parameter in model.parameters()) - embedding
