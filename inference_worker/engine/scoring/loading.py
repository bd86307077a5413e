"""Loads cross-encoders and reward models into the engine: a base model of `transformers`, and a head defined here.

Safetensors only, never a repository's own code.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import torch
from torch import Tensor, nn
from transformers import AutoModelForSequenceClassification

from inference_worker.engine.embedding.encoder import max_positions
from inference_worker.engine.layers.decoder import Decoder
from inference_worker.engine.loading.model_loader import load_base_model, load_model, read_config
from inference_worker.engine.scoring.scorer import PairScorer
from inference_worker.engine.weights.pretrained import from_pretrained
from inference_worker.engine.weights.weights import SafetensorsFolder, Shape
from inference_worker.errors import BadWeights, UnsupportedModel
from inference_worker.model_files.model_source import ModelSource
from inference_worker.model_files.scoring_folder import ScoringHead
from inference_worker.tokenizer.step_labels import step_label_ids
from inference_worker.tokenizer.tokenizer_files import read_definition


def load_pair_scorer(folder: Path, dtype: torch.dtype, device: torch.device) -> PairScorer:
    """Load the cross-encoder in `folder` from its safetensors onto `device`, and check that padded batches work.

    Raises:
        UnsupportedModel: `transformers` has no such model, or it does not work in padded batches.
        BadWeights: the checkpoint is damaged or incomplete.
    """
    model = from_pretrained(AutoModelForSequenceClassification, folder, read_config(folder), dtype)
    model = model.to(device).eval().requires_grad_(False)
    scorer = PairScorer(model, max_positions(model))
    scorer.check_padding()
    return scorer


def load_reward_model(
    source: ModelSource, head: ScoringHead, dtype: torch.dtype, device: torch.device
) -> tuple[Decoder, nn.Module]:
    """Load the decoder of a reward model, and its head: return both.

    The head maps the decoder's final hidden states [N, hidden], in float32, to logits [N].

    Raises:
        UnsupportedModel: the engine does not support the model.
        BadWeights: the checkpoint is damaged or incomplete.
    """
    folder = source.path
    if head is ScoringHead.STEP_TAG:
        model = load_model(source, dtype, device)
        if not isinstance(model, Decoder):
            raise UnsupportedModel(f"{model.shape.model_type} is not served as a reward model")
        weight = (model.model.embed_tokens if model.tied_embeddings else model.lm_head).weight
        return model, _label_head(weight, *_labels(folder, len(weight))).to(device)
    checkpoint = SafetensorsFolder(folder)
    layers = _head(head, checkpoint.shapes(), int(read_config(folder, quantised=True).hidden_size))
    _fill(layers, head, checkpoint)
    return load_base_model(folder, dtype, device), layers.to(device)


def _labels(folder: Path, vocab_size: int) -> tuple[int, int]:
    good, bad = step_label_ids(read_definition(folder))
    if max(good, bad) >= vocab_size:
        raise UnsupportedModel("the tokens of + and - are outside the model's vocabulary")
    return good, bad


class _Difference(nn.Module):
    """The difference of two logits: of the second label, a good step, and the first; its sigmoid is their softmax."""

    def forward(self, logits: Tensor) -> Tensor:
        """Return the difference of two labels' logits, [N, 2] to [N]: the logit of a good step against a bad one."""
        return logits[:, 1] - logits[:, 0]


def _label_head(weight: Tensor, good: int, bad: int) -> nn.Module:
    """Return the head whose logit is the difference of the logits of two tokens."""
    head = nn.Linear(weight.shape[1], 1, bias=False)
    head.weight = nn.Parameter((weight[good].float() - weight[bad].float())[None])
    return nn.Sequential(head, nn.Flatten(0)).requires_grad_(False)


def _head(kind: ScoringHead, shapes: Mapping[str, Shape], hidden: int) -> nn.Module:
    """Build a head in float32, with the shapes that its layout prescribes."""
    match kind:
        case ScoringHead.STEP_MLP:
            layers = [*_mlp(shapes, hidden, labels=2), _Difference()]
        case ScoringHead.LAST_TOKEN_MLP:
            layers = [*_mlp(shapes, hidden, labels=1), nn.Flatten(0)]
        case ScoringHead.STEP_VALUE:
            layers = [_linear("v_head.summary", shapes, hidden, 1), nn.Flatten(0)]
        case _:
            layers = [_linear("score", shapes, hidden, 1), nn.Flatten(0)]
    return nn.Sequential(*layers)


def _mlp(shapes: Mapping[str, Shape], hidden: int, *, labels: int) -> list[nn.Module]:
    return [_linear("score.0", shapes, hidden, hidden), nn.ReLU(), _linear("score.2", shapes, hidden, labels)]


def _linear(name: str, shapes: Mapping[str, Shape], inputs: int, outputs: int) -> nn.Linear:
    expected = {f"{name}.weight": (outputs, inputs), f"{name}.bias": (outputs,)}
    if f"{name}.weight" not in shapes:
        raise BadWeights(f"the checkpoint lacks {name}.weight")
    for tensor, shape in expected.items():
        if shapes.get(tensor, shape) != shape:
            raise BadWeights(f"{tensor} is {list(shapes[tensor])}, the configuration says {list(shape)}")
    return nn.Linear(inputs, outputs, bias=f"{name}.bias" in shapes, dtype=torch.float32)


def _fill(head: nn.Module, kind: ScoringHead, checkpoint: SafetensorsFolder) -> None:
    prefix = "v_head.summary." if kind is ScoringHead.STEP_VALUE else "score."
    single = kind in (ScoringHead.STEP_VALUE, ScoringHead.LAST_TOKEN)
    head.requires_grad_(False)
    slots = dict(head.named_parameters())
    for name in checkpoint.shapes():
        local = name.removeprefix(prefix)
        slot = slots.get(f"0.{local}" if single else local)
        if slot is not None and name.startswith(prefix):
            slot.copy_(checkpoint.read(name))
