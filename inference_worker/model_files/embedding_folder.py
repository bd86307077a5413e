"""Reads from a model's folder, in Sentence Transformers' layout, how an embedding model pools and its longest input.

`modules.json` lists the steps (transformer, pooling, normalising), `1_Pooling/config.json` has the pooling,
`sentence_bert_config.json` the longest input. Without these files the token states are averaged. Must not import torch.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from inference_worker.errors import BadWeights, UnsupportedModel
from inference_worker.model_files.model_source import read_json, read_json_object

Pooling = Literal["mean", "cls", "max", "last"]

_POOLINGS: dict[str, Pooling] = {
    "mean_tokens": "mean",
    "mean_sqrt_len_tokens": "mean",  # differs by a factor of the length, which normalising removes
    "cls_token": "cls",
    "max_tokens": "max",
    "lasttoken": "last",
}
_NEWER_NAMES: dict[str, Pooling] = {"mean": "mean", "mean_sqrt_len": "mean", "cls": "cls", "max": "max"}
_SERVED = {"Transformer", "Pooling", "Normalize"}


@dataclass(frozen=True)
class EmbeddingConfig:
    """How an embedding model computes the vector of a text."""

    pooling: Pooling = "mean"
    max_tokens: int | None = None
    """Longest input in tokens that the model was trained for; `None`: the number of its positions."""
    lowercase: bool = False


def read_config(folder: Path) -> EmbeddingConfig:
    """Read how an embedding model computes vectors (pooling, longest input) from its Sentence Transformers folder.

    Raises:
        UnsupportedModel: the model has a step or a pooling that is not served.
        BadWeights: a file is damaged, or leads out of the folder.
    """
    config = read_json_object(folder / "sentence_bert_config.json") or {}
    max_tokens = config.get("max_seq_length")
    return EmbeddingConfig(
        pooling=_pooling(folder),
        max_tokens=max_tokens if type(max_tokens) is int and max_tokens > 0 else None,
        lowercase=config.get("do_lower_case") is True,
    )


def _pooling(folder: Path) -> Pooling:
    for module in _modules(folder):
        if _kind(module) == "Pooling":
            return _pooling_of(read_json_object(_inside(folder, str(module.get("path", ""))) / "config.json") or {})
    return "mean"


def _modules(folder: Path) -> list[dict[str, Any]]:
    modules = read_json(folder / "modules.json")
    if modules is None:
        return []
    if not isinstance(modules, list) or not all(isinstance(module, dict) for module in modules):
        raise BadWeights(f"{folder / 'modules.json'} holds no list of modules")
    if unsupported := sorted({_kind(module) for module in modules} - _SERVED):
        raise UnsupportedModel(f"its embeddings go through a step that is not served: {', '.join(unsupported)}")
    return modules


def _kind(module: dict[str, Any]) -> str:
    return str(module.get("type", "")).rpartition(".")[2]


def _pooling_of(config: dict[str, Any]) -> Pooling:
    newer = config.get("pooling_mode")
    if isinstance(newer, str) and newer in _NEWER_NAMES:
        return _NEWER_NAMES[newer]
    chosen = [name.removeprefix("pooling_mode_") for name, value in config.items() if value is True]
    chosen = [name for name in chosen if name != "include_prompt"]
    if newer is not None or len(chosen) != 1 or chosen[0] not in _POOLINGS:
        raise UnsupportedModel(f"its pooling is not served: {newer or ' and '.join(chosen) or 'none'}")
    return _POOLINGS[chosen[0]]


def _inside(folder: Path, name: str) -> Path:
    if Path(name).name != name:
        raise BadWeights(f"{name!r} in {folder / 'modules.json'} leads out of the model's folder")
    return folder / name
