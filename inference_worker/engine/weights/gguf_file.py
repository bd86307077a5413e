"""Reads a GGUF file as a model checkpoint: its configuration, and its tensors under their Hugging Face names.

Names and layouts are those of llama.cpp's `convert_hf_to_gguf.py`. Tensor sizes are checked against the file before a
byte is read. The header, tokeniser included, is read by `inference_worker/model_files/gguf_metadata.py`.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import gguf
import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor
from transformers import AutoConfig, PreTrainedConfig

from inference_worker.engine.native.packing import Int4Values, Int8Values
from inference_worker.engine.weights import gguf_blocks
from inference_worker.errors import BadWeights, UnsupportedModel
from inference_worker.model_files.gguf_metadata import GGUFHeader, TensorInfo, eos_token_ids, read_header

PERMUTED = frozenset({"llama", "smollm3"})
"""Architectures whose query and key rows are stored in the order of interleave rotation."""
ARCHITECTURES = frozenset({"llama", "qwen2", "qwen3", "smollm3"})
ROPE_FACTORS = "rope_freqs.weight"

_TOP = {"token_embd": "model.embed_tokens", "output_norm": "model.norm", "output": "lm_head"}
_IN_BLOCK = {
    "attn_norm": "input_layernorm",
    "attn_q": "self_attn.q_proj",
    "attn_k": "self_attn.k_proj",
    "attn_v": "self_attn.v_proj",
    "attn_output": "self_attn.o_proj",
    "attn_q_norm": "self_attn.q_norm",
    "attn_k_norm": "self_attn.k_norm",
    "ffn_norm": "post_attention_layernorm",
    "ffn_gate": "mlp.gate_proj",
    "ffn_up": "mlp.up_proj",
    "ffn_down": "mlp.down_proj",
}
_BLOCK = re.compile(r"blk\.(\d+)\.(\w+)\.(weight|bias)")


class GGUFFile:
    """A `Checkpoint` (`weights.py`) in a GGUF file.

    Raises:
        BadWeights: the file is damaged, or a tensor reaches beyond its end.
        UnsupportedModel: the architecture or quantisation is not supported, or the file is split.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self.header = read_header(path)
        architecture = self.header.architecture
        if architecture not in ARCHITECTURES or f"{architecture}.expert_count" in self.header.metadata:
            raise UnsupportedModel(f"GGUF architecture {architecture!r}: we read {', '.join(sorted(ARCHITECTURES))}")
        if self.header.metadata.get("split.count", 1) > 1:
            raise UnsupportedModel("a GGUF split over several files: merge it by llama-gguf-split --merge")
        self._infos = {_hugging_face_name(info.name): info for info in self.header.tensors}
        for info in self.header.tensors:
            _check_size(info, self.header.file_size)
        self._factors = self._infos.pop(ROPE_FACTORS, None)

    def config(self) -> PreTrainedConfig:
        """Return the GGUF's model configuration, converted to the Hugging Face configuration of its family."""
        try:
            return _config(self.header, set(self._infos))
        except KeyError as error:
            raise BadWeights(f"{self.path} lacks the key {error}") from error

    def rope_factors(self) -> Tensor | None:
        """Return the factors that divide rotary frequencies (llama3 scaling), [head size / 2]; `None` if absent."""
        return None if self._factors is None else self._read(self._factors)

    def shapes(self) -> Mapping[str, tuple[int, ...]]:
        """Return each GGUF tensor's shape by its Hugging Face name, from the header without loading any data."""
        return {name: info.shape for name, info in self._infos.items()}

    def tensors(self) -> Iterator[tuple[str, Tensor]]:
        """Yield each GGUF tensor with its Hugging Face name, one at a time, on the CPU, dequantised to float32."""
        heads = self._permuted_heads()
        for name, info in self._infos.items():
            tensor = self._read(info)
            part = name.split(".")[-2]
            yield name, _unpermute(tensor, heads[part]) if part in heads else tensor

    def quantised_values(self) -> Iterator[tuple[str, Int4Values | Int8Values]]:
        """Yield every matrix that is stored as Q4_0, Q4_1 or Q8_0 with its Hugging Face name, still quantised.

        Rows are in Hugging Face's order.
        """
        heads = self._permuted_heads()
        for name, info in self._infos.items():
            if info.ggml_type in gguf_blocks.KINDS and len(info.shape) == 2:
                values = gguf_blocks.unpack(self._raw(info), info.ggml_type, info.shape[0])
                part = name.split(".")[-2]
                if part in heads:
                    values = type(values)(*(_unpermute(column, heads[part]) for column in vars(values).values()))
                yield name, values

    def _permuted_heads(self) -> dict[str, int]:
        """Return the projections whose rows are permuted in the file, with their numbers of heads."""
        if self.header.architecture not in PERMUTED:
            return {}
        key = f"{self.header.architecture}.attention.head_count"
        query_heads = self.header.metadata[key]
        return {"q_proj": query_heads, "k_proj": self.header.metadata.get(f"{key}_kv", query_heads)}

    def _raw(self, info: TensorInfo) -> NDArray[np.uint8]:
        return np.memmap(self.path, np.uint8, "r", info.offset, (_bytes_of(info),))

    def _read(self, info: TensorInfo) -> Tensor:
        kind = gguf.GGMLQuantizationType(info.ggml_type)
        raw = self._raw(info)
        try:
            values = _PLAIN[kind](raw) if kind in _PLAIN else _dequantised(raw, kind)
        except NotImplementedError as error:
            raise UnsupportedModel(f"{info.name} is quantised as {kind.name}, which we can't read") from error
        return torch.from_numpy(np.array(values, np.float32)).reshape(info.shape)


_PLAIN: dict[gguf.GGMLQuantizationType, Any] = {
    gguf.GGMLQuantizationType.F32: lambda raw: raw.view(np.float32),
    gguf.GGMLQuantizationType.F16: lambda raw: raw.view(np.float16),
}


def _dequantised(raw: NDArray[np.uint8], kind: gguf.GGMLQuantizationType) -> NDArray[np.float32]:
    """Return all values as one row, dequantised 4 MiB at a time: the library alone goes by 16 rows, which is slower."""
    block, size = gguf.GGML_QUANT_SIZES[kind]
    step = (1 << 20) // block * size
    parts = [gguf.quants.dequantize(raw[at : at + step][None], kind)[0] for at in range(0, raw.size, step)]
    return np.concatenate(parts)


def _hugging_face_name(name: str) -> str:
    if match := _BLOCK.fullmatch(name):
        block, part, kind = match.groups()
        return f"model.layers.{block}.{_IN_BLOCK.get(part, part)}.{kind}"
    stem, _, kind = name.rpartition(".")
    return f"{_TOP[stem]}.{kind}" if stem in _TOP else name


def _bytes_of(info: TensorInfo) -> int:
    block, size = gguf.GGML_QUANT_SIZES[gguf.GGMLQuantizationType(info.ggml_type)]
    return int(math.prod(info.shape) // block * size)


def _check_size(info: TensorInfo, file_size: int) -> None:
    try:
        block, _ = gguf.GGML_QUANT_SIZES[gguf.GGMLQuantizationType(info.ggml_type)]
    except (ValueError, KeyError) as error:
        raise UnsupportedModel(f"{info.name} is of unknown type {info.ggml_type}") from error
    if not info.shape or 0 in info.shape or info.shape[-1] % block:
        raise BadWeights(f"{info.name} has an impossible shape {list(info.shape)}")
    if info.offset + _bytes_of(info) > file_size:
        raise BadWeights(f"{info.name} {list(info.shape)} reaches beyond the end of the file ({file_size} bytes)")


def _unpermute(tensor: Tensor, heads: int) -> Tensor:
    """Reorder a matrix's rows from the converter's (pair, half) within each head back to (half, pair)."""
    if tensor.shape[0] % (2 * heads):
        raise BadWeights(f"{tensor.shape[0]} rows can't be {heads} heads")
    paired = tensor.reshape(heads, -1, 2, *tensor.shape[1:])
    return paired.transpose(1, 2).reshape(tensor.shape)


def _config(header: GGUFHeader, names: set[str]) -> PreTrainedConfig:
    """Translate GGUF metadata to a Hugging Face configuration."""
    prefix = header.architecture

    def key(name: str) -> Any:
        return header.metadata[f"{prefix}.{name}"]

    def optional(name: str, default: Any) -> Any:
        return header.metadata.get(f"{prefix}.{name}", default)

    heads = key("attention.head_count")
    head_size = optional("attention.key_length", key("embedding_length") // heads)
    if (
        optional("rope.dimension_count", head_size) != head_size
        or optional("attention.value_length", head_size) != head_size
    ):
        raise UnsupportedModel("rotation of a part of the head, or values of another size than keys")
    has_bias = "model.layers.0.self_attn.q_proj.bias" in names
    return AutoConfig.for_model(
        prefix,
        vocab_size=next(t.shape[0] for t in header.tensors if t.name == "token_embd.weight"),
        hidden_size=key("embedding_length"),
        intermediate_size=key("feed_forward_length"),
        num_hidden_layers=key("block_count"),
        num_attention_heads=heads,
        num_key_value_heads=optional("attention.head_count_kv", heads),
        head_dim=head_size,
        max_position_embeddings=key("context_length"),
        rms_norm_eps=key("attention.layer_norm_rms_epsilon"),
        rope_parameters=_rope(header),
        attention_bias=has_bias,
        tie_word_embeddings="lm_head.weight" not in names,
        bos_token_id=header.metadata.get("tokenizer.ggml.bos_token_id"),
        eos_token_id=list(eos_token_ids(header)),
    )


def _rope(header: GGUFHeader) -> dict[str, Any]:
    prefix = f"{header.architecture}.rope"
    get = header.metadata.get
    kind = get(f"{prefix}.scaling.type", "none")
    rope: dict[str, Any] = {"rope_theta": float(get(f"{prefix}.freq_base", 10000.0)), "rope_type": "default"}
    if kind == "none":
        return rope
    rope |= {"rope_type": kind, "factor": float(get(f"{prefix}.scaling.factor", 1.0))}
    if original := get(f"{prefix}.scaling.original_context_length"):
        rope["original_max_position_embeddings"] = original
    return rope
