"""Translates the metadata of a GGUF file to the configuration of a `transformers` model.

The keys are those of llama.cpp's `convert_hf_to_gguf.py`. Each number is checked before it is used.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any

from huggingface_hub.errors import StrictDataclassError
from torch import Tensor
from transformers import AutoConfig, PreTrainedConfig

from inference_worker.engine.causal_lm import MAX_LAYERS
from inference_worker.errors import BadWeights, UnsupportedModel
from inference_worker.model_files.gguf_metadata import GGUFHeader, eos_token_ids

_MAX_COUNT = 2**31 - 1

Fields = dict[str, Any]


class Keys:
    """The metadata of a GGUF file under the prefix of its architecture, with checks of their types and ranges."""

    def __init__(self, header: GGUFHeader) -> None:
        self._metadata = header.metadata
        self._prefix = header.architecture

    def count(self, name: str, default: int | None = None) -> int:
        """Return a whole number from 1 to 2^31 - 1; `default` where the file lacks the key.

        Raises:
            BadWeights: it is not such a number, or it is missing and there is no default.
            UnsupportedModel: it differs from layer to layer.
        """
        value = self._value(name, default)
        if isinstance(value, list):
            if len(set(value)) != 1:
                raise UnsupportedModel(f"{self._prefix}.{name} differs from layer to layer")
            value = value[0]
        if type(value) is not int or not 0 < value <= _MAX_COUNT:
            raise BadWeights(f"{self._prefix}.{name} is {value!r}")
        return value

    def number(self, name: str, default: float | None = None) -> float:
        """Return a finite number; `default` where the file lacks the key.

        Raises:
            BadWeights: it is not such a number, or it is missing and there is no default.
        """
        value = self._value(name, default)
        if type(value) not in (int, float) or not math.isfinite(value):
            raise BadWeights(f"{self._prefix}.{name} is {value!r}")
        return float(value)

    def get(self, name: str) -> Any:
        """Return the value of an optional key, unchecked; `None` where the file lacks it."""
        return self._metadata.get(f"{self._prefix}.{name}")

    def _value(self, name: str, default: float | None) -> Any:
        value = self.get(name)
        if value is None and default is None:
            raise BadWeights(f"the file lacks the key {self._prefix}.{name}")
        return default if value is None else value


@dataclass(frozen=True)
class FileContent:
    """What a model's configuration is made of: the header, each tensor's shape, and small tensors, by stored name."""

    header: GGUFHeader
    shapes: Mapping[str, tuple[int, ...]]
    read: Callable[[str], Tensor | None]

    @property
    def keys(self) -> Keys:
        """The metadata of the file's architecture."""
        return Keys(self.header)


def model_config(content: FileContent, model_type: str) -> PreTrainedConfig:
    """Return the configuration of the `transformers` model type that a GGUF file's architecture is read as.

    Raises:
        BadWeights: a key is missing, or its value is impossible.
        UnsupportedModel: the file describes a variant that is not served.
    """
    keys, metadata = content.keys, content.header.metadata
    layers, heads, hidden = (
        keys.count("block_count"),
        keys.count("attention.head_count"),
        keys.count("embedding_length"),
    )
    if layers > MAX_LAYERS:
        raise UnsupportedModel(f"{layers} layers, at most {MAX_LAYERS} are served")
    if (embedding := content.shapes.get("token_embd.weight")) is None:
        raise BadWeights("the file lacks token_embd.weight")
    kv_heads, head_size = (
        keys.count("attention.head_count_kv", heads),
        keys.count("attention.key_length", hidden // heads),
    )
    if heads % kv_heads:
        raise BadWeights(f"{heads} query heads can't share {kv_heads} key-value heads")
    if head_size % 2:
        raise BadWeights(f"heads of the odd size {head_size}")
    if keys.count("attention.value_length", head_size) != head_size:
        raise UnsupportedModel("values of another size than keys")
    fields: Fields = {
        "vocab_size": embedding[0],
        "hidden_size": hidden,
        "intermediate_size": keys.count("feed_forward_length"),
        "num_hidden_layers": layers,
        "num_attention_heads": heads,
        "num_key_value_heads": kv_heads,
        "head_dim": head_size,
        "max_position_embeddings": keys.count("context_length"),
        "rms_norm_eps": keys.number("attention.layer_norm_rms_epsilon"),
        "rope_parameters": _rope(keys, head_size),
        "attention_bias": "blk.0.attn_q.bias" in content.shapes,
        "tie_word_embeddings": "output.weight" not in content.shapes,
        "bos_token_id": metadata.get("tokenizer.ggml.bos_token_id"),
        "eos_token_id": list(eos_token_ids(content.header)),
    }
    if model_type in _FIELDS:
        fields |= _FIELDS[model_type](content, fields)
    if (
        "partial_rotary_factor" not in fields["rope_parameters"]
        and keys.count("rope.dimension_count", head_size) != head_size
    ):
        raise UnsupportedModel("rotation of a part of the head")
    try:
        return AutoConfig.for_model(model_type, **fields)
    except (ValueError, KeyError, TypeError, ArithmeticError, StrictDataclassError) as error:
        raise BadWeights(
            f"the metadata are no configuration of {model_type}: {' '.join(str(error).split())}"
        ) from error


def _rope(keys: Keys, head_size: int) -> Fields:
    rope: Fields = {"rope_theta": keys.number("rope.freq_base", 10000.0), "rope_type": "default"}
    kind = keys.get("rope.scaling.type") or "none"
    if kind == "none":
        return rope
    if kind not in ("linear", "yarn"):
        raise UnsupportedModel(f"rotary scaling {kind!r}")
    rope |= {"rope_type": kind, "factor": keys.number("rope.scaling.factor", 1.0)}
    if rope["factor"] <= 0 or rope["rope_theta"] <= 0:
        raise BadWeights(f"rotary frequencies with the base {rope['rope_theta']} and the factor {rope['factor']}")
    if keys.get("rope.scaling.original_context_length"):
        rope["original_max_position_embeddings"] = keys.count("rope.scaling.original_context_length")
    return rope


def _gemma2(content: FileContent, common: Fields) -> Fields:
    """Every other layer has a sliding window; scores and logits are capped."""
    keys, layers = content.keys, common["num_hidden_layers"]
    # The 27B model, which llama.cpp recognises by its layers, scales scores by the hidden size per head.
    wide = layers == 46
    return {
        "sliding_window": keys.count("attention.sliding_window", 4096),
        "layer_types": _alternating(layers),
        "query_pre_attn_scalar": common["hidden_size"] // common["num_attention_heads"] if wide else common["head_dim"],
        "attn_logit_softcapping": _cap(keys, "attn_logit_softcapping", 50.0),
        "final_logit_softcapping": _cap(keys, "final_logit_softcapping", 30.0),
    }


def _alternating(layers: int) -> list[str]:
    return ["full_attention" if i % 2 else "sliding_attention" for i in range(layers)]


def _cap(keys: Keys, name: str, default: float) -> float:
    cap = keys.number(name, default)
    if cap <= 0:
        raise BadWeights(f"the soft cap {name} is {cap}")
    return cap


def _gpt_oss(content: FileContent, common: Fields) -> Fields:
    """Every other layer has a sliding window. Its YaRN neither rounds its bounds nor has them in the file."""
    keys, rope = content.keys, dict(common["rope_parameters"])
    if rope["rope_type"] == "yarn":
        rope |= {"beta_fast": 32.0, "beta_slow": 1.0, "truncate": False}
    experts, used = _experts(keys)
    return {
        "rope_parameters": rope,
        "sliding_window": keys.count("attention.sliding_window"),
        "layer_types": _alternating(common["num_hidden_layers"]),
        "intermediate_size": keys.count("expert_feed_forward_length", common["intermediate_size"]),
        "num_local_experts": experts,
        "num_experts_per_tok": used,
    }


def _experts(keys: Keys) -> tuple[int, int]:
    """Return how many experts a layer has, and how many of them compute each token."""
    experts, used = keys.count("expert_count"), keys.count("expert_used_count")
    if used > experts:
        raise BadWeights(f"{used} experts of {experts} are used")
    return experts, used


def _gemma3(content: FileContent, common: Fields) -> Fields:
    """Five layers with a sliding window and a rotation of their own, then one with full attention."""
    keys = content.keys
    period = keys.count("attention.sliding_window_pattern", 6)
    layers = common["num_hidden_layers"]
    # The 27B model, which llama.cpp recognises by its layers, scales scores by the hidden size per head.
    wide = layers == 62
    return {
        "sliding_window": keys.count("attention.sliding_window"),
        "layer_types": ["sliding_attention" if (i + 1) % period else "full_attention" for i in range(layers)],
        "query_pre_attn_scalar": common["hidden_size"] // common["num_attention_heads"] if wide else common["head_dim"],
        "rope_parameters": {
            "full_attention": common["rope_parameters"],
            "sliding_attention": {"rope_type": "default", "rope_theta": keys.number("rope.freq_base_swa", 10000.0)},
        },
    }


def _granite(content: FileContent, _common: Fields) -> Fields:
    keys = content.keys
    return {
        "attention_multiplier": keys.number("attention.scale"),
        "embedding_multiplier": keys.number("embedding_scale"),
        "residual_multiplier": keys.number("residual_scale"),
        "logits_scaling": keys.number("logit_scale"),
    }


def _phi3(content: FileContent, common: Fields) -> Fields:
    """A part of the head may be rotated; models of long contexts have factors for the original context and beyond."""
    keys, rope = content.keys, dict(common["rope_parameters"])
    rope["partial_rotary_factor"] = keys.count("rope.dimension_count", common["head_dim"]) / common["head_dim"]
    original = keys.count("rope.scaling.original_context_length", common["max_position_embeddings"])
    short, long = content.read("rope_factors_short.weight"), content.read("rope_factors_long.weight")
    if short is not None and long is not None:
        rope |= {"rope_type": "longrope", "original_max_position_embeddings": original}
        rope |= {"short_factor": short.tolist(), "long_factor": long.tolist()}
        rope |= {"factor": common["max_position_embeddings"] / original}
    return {
        "rope_parameters": rope,
        "original_max_position_embeddings": original,
        "sliding_window": keys.count("attention.sliding_window") if keys.get("attention.sliding_window") else None,
        "pad_token_id": None,
    }


def _qwen3_moe(content: FileContent, _common: Fields) -> Fields:
    """The weights of the chosen experts add up to one, as in all released models; the file does not say it."""
    keys = content.keys
    experts, used = _experts(keys)
    return {
        "num_experts": experts,
        "num_experts_per_tok": used,
        "moe_intermediate_size": keys.count("expert_feed_forward_length"),
        "norm_topk_prob": True,
    }


_FIELDS: Mapping[str, Callable[[FileContent, Fields], Fields]] = MappingProxyType(
    {
        "gemma2": _gemma2,
        "gemma3_text": _gemma3,
        "gpt_oss": _gpt_oss,
        "granite": _granite,
        "phi3": _phi3,
        "qwen3_moe": _qwen3_moe,
    }
)
"""Functions that return the fields that a model type has beside, or in place of, those that all have."""
