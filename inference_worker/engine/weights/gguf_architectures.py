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
_GEMMA = _ATTENTION | _MLP | _NORMS_AFTER | {"attn_norm": "input_layernorm", "ffn_norm": "pre_feedforward_layernorm"}
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
_GPT_OSS = (
    _ATTENTION
    | {name: module for name, module in _EXPERTS.items() if name != "ffn_gate_inp"}
    | {
        "attn_norm": "input_layernorm",
        "post_attention_norm": "post_attention_layernorm",
        "attn_sinks": "self_attn.sinks",
        "ffn_gate_inp": "mlp.router",
    }
)


@dataclass(frozen=True)
class Architecture:
    """How a GGUF architecture is read.

    Attributes:
        model_type: the model type of `transformers` that it is.
        names: names of the modules of a layer by the names of their tensors in a block.
        permuted: whether the rows of queries and keys are stored in the order of interleaved rotation.
        shifted_norms: whether weights of norms are stored plus one.
        interleaved_experts: whether the model has its experts' matrices transposed, with biases, and each gate beside
            its up; the file has one matrix of gates and one of ups.
    """

    model_type: str
    names: Mapping[str, str]
    permuted: bool = False
    shifted_norms: bool = False
    interleaved_experts: bool = False

    def hugging_face_name(self, name: str) -> str:
        """Return the name in `transformers` of the tensor stored as `name`, which is `name` itself if it has none.

        The experts' gates and ups have one name: they are one tensor there.
        """
        if match := _BLOCK.fullmatch(name):
            block, part, kind = match.groups()
            path = f"model.layers.{block}.{self.names.get(part, part)}"
            if ".experts." in path:
                return path if kind == "weight" else f"{path}_bias"
            return path if path.endswith(".sinks") else f"{path}.{kind}"
        stem, _, kind = name.rpartition(".")
        return f"{_TOP[stem]}.{kind}" if stem in _TOP else name


ARCHITECTURES: Mapping[str, Architecture] = MappingProxyType(
    {
        "llama": Architecture("llama", _LLAMA, permuted=True),
        "qwen2": Architecture("qwen2", _LLAMA),
        "qwen3": Architecture("qwen3", _LLAMA),
        "smollm3": Architecture("smollm3", _LLAMA, permuted=True),
        "gemma": Architecture("gemma", _LLAMA, shifted_norms=True),
        "gemma2": Architecture("gemma2", _GEMMA, shifted_norms=True),
        "gemma3": Architecture("gemma3_text", _GEMMA, shifted_norms=True),
        "gpt-oss": Architecture("gpt_oss", _GPT_OSS, interleaved_experts=True),
        "granite": Architecture("granite", _LLAMA, permuted=True),
        "olmo2": Architecture("olmo2", _ATTENTION | _MLP | _NORMS_AFTER),
        "phi3": Architecture("phi3", _PHI3),
        "qwen3moe": Architecture("qwen3_moe", _ATTENTION | _NORMS_BEFORE | _EXPERTS),
    }
)
"""The GGUF architectures that are read. Mistral's models are stored as `llama`."""


def architecture_of(name: str, metadata: Mapping[str, Any]) -> Architecture:
    """Return how the GGUF architecture `name` is read.

    Raises:
        UnsupportedModel: it is not read; the message says what is missing.
    """
    if name not in ARCHITECTURES:
        raise UnsupportedModel(f"GGUF architecture {name!r}: we read {', '.join(sorted(ARCHITECTURES))}")
    found = ARCHITECTURES[name]
    if metadata.get(f"{name}.expert_count") and "ffn_gate_exps" not in found.names:
        raise UnsupportedModel(f"GGUF architecture {name!r} with experts: we read them of gpt-oss and qwen3moe only")
    return found
