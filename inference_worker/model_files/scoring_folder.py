"""Reads from a model folder's `config.json` how a classifier, cross-encoder or reward model scores, without torch.

Layouts are those of published models: text classifiers with several labels on an encoder, Sentence Transformers'
cross-encoders, sequence classifiers with one label on a decoder, Qwen2.5-Math-RM and -PRM, Skywork-o1-Open-PRM, and
causal language models that were trained as Math-Shepherd.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import Any

from inference_worker.errors import UnsupportedModel
from inference_worker.model_files.model_source import read_json_object

DECODERS = frozenset({"llama", "mistral", "qwen2", "qwen3"})
"""Values of `model_type` of decoders, whose sequence classifiers read the last token."""
ENCODERS = frozenset(
    {
        "albert",
        "bert",
        "camembert",
        "deberta-v2",
        "distilbert",
        "electra",
        "modernbert",
        "mpnet",
        "roberta",
        "xlm-roberta",
    }
)
"""Values of `model_type` of encoders, which score pairs of texts, or the labels of a text."""
_SIGMOID, _IDENTITY = "torch.nn.modules.activation.Sigmoid", "torch.nn.modules.linear.Identity"
_ACTIVATIONS = {_SIGMOID: True, _IDENTITY: False}


class ScoringHead(StrEnum):
    """What computes the scores from the hidden states of a base model."""

    PAIR = "pair"
    """The classifier of an encoder: one score for a pair of texts."""
    LABELS = "labels"
    """The classifier of an encoder: one score for each label of a text."""
    LAST_TOKEN = "last_token"  # noqa: S105 - the name of a head
    """A linear layer (`score`) on a decoder's state of the last token: one score for an answer."""
    LAST_TOKEN_MLP = "last_token_mlp"  # noqa: S105
    """Two linear layers (`score.0`, `score.2`) on a decoder's state of the last token (Qwen2.5-Math-RM)."""
    STEP_MLP = "step_mlp"
    """Two linear layers with two labels on the states of the step tokens (Qwen2.5-Math-PRM)."""
    STEP_VALUE = "step_value"
    """A linear layer (`v_head.summary`) on the states of the step ends (Skywork-o1-Open-PRM)."""
    STEP_TAG = "step_tag"
    """The logits of "+" and "-" at the step tags (Math-Shepherd)."""

    @property
    def scores_steps(self) -> bool:
        """Whether a model with this head scores each step of an answer: it is a process reward model."""
        return self in (ScoringHead.STEP_MLP, ScoringHead.STEP_VALUE, ScoringHead.STEP_TAG)


@dataclass(frozen=True)
class ScoringConfig:
    """How a model scores."""

    head: ScoringHead
    sigmoid: bool = True
    """Whether the activation function is the sigmoid; else it is the identity, or with several labels the softmax."""
    bos_token_id: int | None = None
    step_tag: str = ""
    """Text after each step, at which a model with the head `STEP_TAG` is read."""
    labels: tuple[str, ...] = ()
    """Names of the labels of a model with the head `LABELS`, in order of its scores."""


def read_config(folder: Path, step_tag: str = "") -> ScoringConfig:
    """Read from a model's folder how a cross-encoder or reward model scores: its head and activation function.

    `step_tag` is the operator's setting for models trained as Math-Shepherd; "" if unset.

    Raises:
        UnsupportedModel: the model has another layout or another activation function.
        BadWeights: a file is damaged.
    """
    config = read_json_object(folder / "config.json") or {}
    begin = config.get("bos_token_id")
    if (head := _head(config, step_tag)) is ScoringHead.LABELS:
        several = config.get("problem_type") == "multi_label_classification"
        return ScoringConfig(head, sigmoid=several, labels=_label_names(config))
    return ScoringConfig(
        head=head,
        sigmoid=_has_sigmoid(folder, config),
        bos_token_id=begin if type(begin) is int else None,
        step_tag=step_tag,
    )


def _head(config: dict[str, Any], step_tag: str) -> ScoringHead:
    architecture, kind = str((config.get("architectures") or [""])[0]), str(config.get("model_type"))
    if architecture.endswith("ForSequenceClassification"):
        if _labels(config) != 1 and kind not in ENCODERS:
            raise UnsupportedModel(f"it has {_labels(config)} labels: a {kind} with one label is served")
        if kind in ENCODERS:
            return ScoringHead.PAIR if _labels(config) == 1 else ScoringHead.LABELS
    elif kind == "qwen2" and architecture.endswith("ForProcessRewardModel"):
        return ScoringHead.STEP_MLP
    elif kind in DECODERS and architecture.endswith("ForPrmModel"):
        return ScoringHead.STEP_VALUE
    if kind not in DECODERS:
        raise UnsupportedModel(f"{architecture} of type {kind} is not served: scores need one of {_KNOWN}")
    if architecture.endswith("ForSequenceClassification"):
        return ScoringHead.LAST_TOKEN
    if kind == "qwen2" and architecture.endswith("ForRewardModel"):
        return ScoringHead.LAST_TOKEN_MLP
    if step_tag and architecture.endswith("ForCausalLM"):
        return ScoringHead.STEP_TAG
    raise UnsupportedModel(f"{architecture} is no architecture that scores")


_KNOWN = ", ".join(sorted(ENCODERS | DECODERS))


def _labels(config: dict[str, Any]) -> int:
    """Return the number of labels as `transformers` counts them: two if nothing is said."""
    names, number = config.get("id2label"), config.get("num_labels")
    if isinstance(names, dict):
        return len(names)
    return number if type(number) is int else 2


def _label_names(config: dict[str, Any]) -> tuple[str, ...]:
    names = config.get("id2label")
    given = names if isinstance(names, dict) else {}
    return tuple(str(given.get(str(index), f"LABEL_{index}")) for index in range(_labels(config)))


def _has_sigmoid(folder: Path, config: dict[str, Any]) -> bool:
    """Return whether the activation function is the sigmoid, the default for one label in Sentence Transformers."""
    described = config.get("sentence_transformers")
    newest = (read_json_object(folder / "config_sentence_transformers.json") or {}).get("activation_fn")
    newer = described.get("activation_fn") if isinstance(described, dict) else None
    name = newest or newer or config.get("sbert_ce_default_activation_function") or _SIGMOID
    if name not in _ACTIVATIONS:
        raise UnsupportedModel(f"its activation function is not served: {name}")
    return _ACTIVATIONS[name]
