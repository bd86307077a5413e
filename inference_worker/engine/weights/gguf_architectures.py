"""Describes how each GGUF architecture stores the tensors of its `transformers` model: names, order and offsets.

Names and layouts are those of llama.cpp's `convert_hf_to_gguf.py`.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any

from inference_worker.errors import UnsupportedModel

_TOP = {"token_embd": "model.embed_tokens", "output_norm": "model.norm", "output": "lm_head"}
_BLOCK = re.compile(r"blk\.(\d+)\.(\w+)\.(weight|bias)")

_ATTENTION = {
    "attn_q": "self_attn.q_proj",
    "attn_k": "self_attn.k_proj",
    "attn_v": "self_attn.v_proj",
    "attn_output": "self_attn.o_proj",
    "attn_q_norm": "self_attn.q_norm",
    "attn_k_norm": "self_attn.k_norm",
}
_MLP = {"ffn_gate": "mlp.gate_proj", "ffn_up": "mlp.up_proj", "ffn_down": "mlp.down_proj"}
_NORMS_BEFORE = {"attn_norm": "input_layernorm", "ffn_norm": "post_attention_layernorm"}
_NORMS_AFTER = {
    "post_attention_norm": "post_attention_layernorm",
    "post_ffw_norm": "post_feedforward_layernorm",
}
_LLAMA = _ATTENTION | _MLP | _NORMS_BEFORE
_GEMMA3 = _ATTENTION | _MLP | _NORMS_AFTER | {"attn_norm": "input_layernorm", "ffn_norm": "pre_feedforward_layernorm"}
_PHI3 = {
    "attn_qkv": "self_attn.qkv_proj",
    "attn_output": "self_attn.o_proj",
    "ffn_up": "mlp.gate_up_proj",
    "ffn_down": "mlp.down_proj",
} | _NORMS_BEFORE
_EXPERTS = {
    "ffn_gate_inp": "mlp.gate",
    "ffn_gate_exps": "mlp.experts.gate_up_proj",
    "ffn_up_exps": "mlp.experts.gate_up_proj",
    "ffn_down_exps": "mlp.experts.down_proj",
}


@dataclass(frozen=True)
class Architecture:
    """How a GGUF architecture is read.

    Attributes:
        model_type: the model type of `transformers` that it is.
        names: names of the modules of a layer by the names of their tensors in a block.
        permuted: whether the rows of queries and keys are stored in the order of interleaved rotation.
        shifted_norms: whether weights of norms are stored plus one.
    """

    model_type: str
    names: Mapping[str, str]
    permuted: bool = False
    shifted_norms: bool = False

    def hugging_face_name(self, name: str) -> str:
        """Return the name in `transformers` of the tensor stored as `name`, which is `name` itself if it has none.

        The experts' gates and ups have one name: they are one tensor there.
        """
        if match := _BLOCK.fullmatch(name):
            block, part, kind = match.groups()
            path = f"model.layers.{block}.{self.names.get(part, part)}"
            return path if ".experts." in path else f"{path}.{kind}"
        stem, _, kind = name.rpartition(".")
        return f"{_TOP[stem]}.{kind}" if stem in _TOP else name


ARCHITECTURES: Mapping[str, Architecture] = MappingProxyType(
    {
        "llama": Architecture("llama", _LLAMA, permuted=True),
        "qwen2": Architecture("qwen2", _LLAMA),
        "qwen3": Architecture("qwen3", _LLAMA),
        "smollm3": Architecture("smollm3", _LLAMA, permuted=True),
        "gemma": Architecture("gemma", _LLAMA, shifted_norms=True),
        "gemma3": Architecture("gemma3_text", _GEMMA3, shifted_norms=True),
        "granite": Architecture("granite", _LLAMA, permuted=True),
        "olmo2": Architecture("olmo2", _ATTENTION | _MLP | _NORMS_AFTER),
        "phi3": Architecture("phi3", _PHI3),
        "qwen3moe": Architecture("qwen3_moe", _ATTENTION | _NORMS_BEFORE | _EXPERTS),
    }
)
"""The GGUF architectures that are read. Mistral's models are stored as `llama`."""

_LACKING = {
    "gemma2": "its attention caps scores softly (softcap), which the engine's attention does not",
    "gpt-oss": "its attention has sinks (s_aux), which the engine's attention does not have",
}
"""What is missing for architectures that people have and that are not served."""


def architecture_of(name: str, metadata: Mapping[str, Any]) -> Architecture:
    """Return how the GGUF architecture `name` is read.

    Raises:
        UnsupportedModel: it is not read; the message says what is missing.
    """
    if reason := _LACKING.get(name):
        raise UnsupportedModel(f"GGUF architecture {name!r} is not served: {reason}")
    if name not in ARCHITECTURES:
        raise UnsupportedModel(f"GGUF architecture {name!r}: we read {', '.join(sorted(ARCHITECTURES))}")
    found = ARCHITECTURES[name]
    if metadata.get(f"{name}.expert_count") and "ffn_gate_exps" not in found.names:
        raise UnsupportedModel(f"GGUF architecture {name!r} with experts: we read them of qwen3moe only")
    return found
