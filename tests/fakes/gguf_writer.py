"""Writes tiny models as GGUF files with the names, transpositions and metadata of llama.cpp's converter."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import gguf
import torch
from torch import Tensor
from transformers import PreTrainedModel

ARCHITECTURES = {"gemma2": gguf.MODEL_ARCH.GEMMA2, "gpt_oss": gguf.MODEL_ARCH.GPT_OSS}
"""Architectures by model type of `transformers`."""

MXFP4 = gguf.GGMLQuantizationType.MXFP4


def round_experts(model: PreTrainedModel) -> None:
    """Round the experts' matrices of a gpt-oss model to what MXFP4, in which they are stored, represents."""
    for name, parameter in model.named_parameters():
        if name.endswith(("experts.gate_up_proj", "experts.down_proj")):
            stored = gguf.quants.quantize(parameter.detach().transpose(1, 2).contiguous().numpy(), MXFP4)
            parameter.data = torch.from_numpy(gguf.quants.dequantize(stored, MXFP4)).transpose(1, 2).contiguous()


def write_gguf(path: Path, model: PreTrainedModel) -> None:
    """Write a `gemma2` or `gpt_oss` model; experts' matrices as MXFP4, all others as float32."""
    config: Any = model.config
    architecture = ARCHITECTURES[config.model_type]
    writer = begin(path, gguf.MODEL_ARCH_NAMES[architecture], config)
    writer.add_value_length(config.head_dim)
    writer.add_sliding_window(config.sliding_window)
    if config.model_type == "gemma2":
        writer.add_attn_logit_softcapping(config.attn_logit_softcapping)
        writer.add_final_logit_softcapping(config.final_logit_softcapping)
    else:
        rope = config.rope_parameters
        writer.add_expert_feed_forward_length(config.intermediate_size)
        writer.add_expert_count(config.num_local_experts)
        writer.add_expert_used_count(config.num_experts_per_tok)
        writer.add_rope_freq_base(rope["rope_theta"])
        writer.add_rope_scaling_type(gguf.RopeScalingType.YARN)
        writer.add_rope_scaling_factor(rope["factor"])
        writer.add_rope_scaling_orig_ctx_len(rope["original_max_position_embeddings"])
    names = gguf.get_tensor_name_map(architecture, config.num_hidden_layers)
    for name, values in _parts(model):
        stored = names.get_name(name, try_suffixes=(".weight", ".bias"))
        if values.ndim == 3:
            writer.add_tensor(stored, gguf.quants.quantize(values.numpy(), MXFP4), raw_dtype=MXFP4)
        else:
            writer.add_tensor(stored, values.numpy())
    end(writer)


def begin(path: Path, architecture: str, config: Any, *, parts: int = 0) -> gguf.GGUFWriter:
    """Return a writer of a GGUF file that has the metadata of all architectures; `parts`: tensors per file."""
    writer = gguf.GGUFWriter(path, architecture, split_max_tensors=parts)
    writer.add_context_length(config.max_position_embeddings)
    writer.add_embedding_length(config.hidden_size)
    writer.add_block_count(config.num_hidden_layers)
    writer.add_feed_forward_length(config.intermediate_size)
    writer.add_head_count(config.num_attention_heads)
    writer.add_head_count_kv(config.num_key_value_heads)
    if getattr(config, "head_dim", None):
        writer.add_key_length(config.head_dim)
    writer.add_layer_norm_rms_eps(config.rms_norm_eps)
    writer.add_eos_token_id(2)
    return writer


def end(writer: gguf.GGUFWriter) -> None:
    """Write the file, and close it."""
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()


def _parts(model: PreTrainedModel) -> Iterator[tuple[str, Tensor]]:
    """Yield the tensors that are stored, by the names that gguf-py maps."""
    for name, values in model.state_dict().items():
        if name == "lm_head.weight" and model.config.tie_word_embeddings:
            continue
        if ".experts." in name:
            yield from _expert_parts(name, values)
        elif name.endswith(".sinks"):
            yield f"{name}.weight", values
        elif model.config.model_type == "gemma2" and name.endswith("norm.weight"):
            yield name, values + 1
        else:
            yield name, values


def _expert_parts(name: str, values: Tensor) -> Iterator[tuple[str, Tensor]]:
    if name.endswith("_bias"):
        name, kind = name.removesuffix("_bias"), "bias"
    else:
        values, kind = values.transpose(1, 2), "weight"
    if name.endswith("gate_up_proj"):
        stem = name.removesuffix("gate_up_proj")
        yield f"{stem}gate_proj.{kind}", values[:, ::2].contiguous()
        yield f"{stem}up_proj.{kind}", values[:, 1::2].contiguous()
    else:
        yield f"{name}.{kind}", values.contiguous()
