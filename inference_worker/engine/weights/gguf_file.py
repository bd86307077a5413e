"""Reads a GGUF model, in one file or several, as a checkpoint: its configuration, and its tensors by Hugging Face name.

Tensor sizes are checked against the files before a byte is read. The headers, tokeniser included, are read by
`inference_worker/model_files/gguf_metadata.py`.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from functools import cached_property
from pathlib import Path
from typing import Any

import gguf
import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor
from transformers import PreTrainedConfig

from inference_worker.engine.native.packing import Int4Values, Int8Values
from inference_worker.engine.weights import gguf_blocks
from inference_worker.engine.weights.gguf_architectures import architecture_of
from inference_worker.engine.weights.gguf_config import FileContent, model_config
from inference_worker.engine.weights.weights import Quantisation
from inference_worker.errors import BadWeights, UnsupportedModel
from inference_worker.model_files.gguf_metadata import TensorInfo
from inference_worker.model_files.gguf_parts import read_parts

_ROPE_FACTORS = "rope_freqs.weight"
_LONG_ROPE_FACTORS = ("rope_factors_short.weight", "rope_factors_long.weight")


class GGUFFile:
    """A `Checkpoint` (`weights.py`) in a GGUF file, or in several, of which `path` is the first.

    Raises:
        ModelNotFound: a file is missing.
        BadWeights: a file is damaged, or a tensor reaches beyond its end.
        UnsupportedModel: the architecture or a tensor's type is not supported, or `path` is not the first file.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        parts = read_parts(path)
        self.header = parts[0].header
        self._architecture = architecture_of(self.header.architecture, self.header.metadata)
        self._stored: dict[str, TensorInfo] = {}
        self._file_of: dict[str, Path] = {}
        for part in parts:
            for info in part.header.tensors:
                _check_size(info, part.header.file_size)
                self._stored[info.name] = info
                self._file_of[info.name] = part.path
        self._infos: dict[str, list[TensorInfo]] = {}
        for name in sorted(self._stored.keys() - {_ROPE_FACTORS, *_LONG_ROPE_FACTORS}):  # gates before ups
            self._infos.setdefault(self._architecture.hugging_face_name(name), []).append(self._stored[name])
        for name, infos in self._infos.items():
            if infos[1:] and ".experts." not in name:
                raise BadWeights(f"{path}: {' and '.join(info.name for info in infos)} are the same tensor, {name}")

    @property
    def files(self) -> Sequence[Path]:
        """The GGUF file, or all files of a split one."""
        return sorted(set(self._file_of.values()))

    def config(self) -> PreTrainedConfig:
        """Return the GGUF's model configuration, converted to the Hugging Face configuration of its family."""
        shapes = {name: info.shape for name, info in self._stored.items()}
        content = FileContent(self.header, shapes, self._read_if_stored)
        try:
            return model_config(content, self._architecture.model_type)
        except BadWeights as error:
            raise BadWeights(f"{self.path}: {error}") from error

    def rope_factors(self) -> Tensor | None:
        """Return the factors that divide rotary frequencies (llama3 scaling), [head size / 2]; `None` if absent."""
        return self._read_if_stored(_ROPE_FACTORS)

    def shapes(self) -> Mapping[str, tuple[int, ...]]:
        """Return each tensor's shape by its Hugging Face name, from the headers without loading any data."""
        return {name: self._shape(name, [info.shape for info in infos]) for name, infos in self._infos.items()}

    def read(self, name: str) -> Tensor:
        """Return the tensor with this Hugging Face name, on the CPU, dequantised to float32."""
        infos = self._infos[name]
        if self._is_interleaved(name):
            return _interleaved([self._read(info) for info in infos])
        tensor = torch.cat([self._read(info) for info in infos], dim=-2) if infos[1:] else self._read(infos[0])
        if self._architecture.shifted_norms and name.endswith("norm.weight"):
            tensor -= 1
        part = _module(name)
        return _unpermute(tensor, self._permuted_heads[part]) if part in self._permuted_heads else tensor

    def quantisation(self) -> Quantisation:
        """Return `int4` if the kernels have any matrix as int4, else `int8` if any is quantised."""
        kinds = {info.ggml_type for info in self._stored.values() if _is_quantised(info)}
        if any(gguf_blocks.is_int4(kind) for kind in kinds):
            return "int4"
        return "int8" if kinds else "none"

    def quantised(self, name: str) -> Int4Values | Int8Values | None:
        """Return a quantised matrix by its Hugging Face name, repacked as int4 or int8 (`gguf_blocks.py`).

        None if it is not quantised. Rows are in Hugging Face's order.
        """
        info, *_ = self._infos[name]
        if not _is_quantised(info):
            return None
        values = gguf_blocks.unpack(self._raw(info), info.ggml_type, info.shape[0])
        heads = self._permuted_heads.get(_module(name))
        return type(values)(*(_unpermute(column, heads) for column in vars(values).values())) if heads else values

    def _is_interleaved(self, name: str) -> bool:
        return self._architecture.interleaved_experts and ".experts." in name

    def _shape(self, name: str, stored: list[tuple[int, ...]]) -> tuple[int, ...]:
        if not self._is_interleaved(name):
            return _joined_shape(stored)
        if len(set(stored)) > 1:
            raise BadWeights(f"{name} is stored in parts of different shapes: {stored}")
        return tuple(_interleaved([torch.empty(shape, device="meta") for shape in stored]).shape)

    @cached_property
    def _permuted_heads(self) -> dict[str, int]:
        """The projections whose rows are permuted in the file, with their numbers of heads."""
        if not self._architecture.permuted:
            return {}
        config = self.config()
        return {"q_proj": config.num_attention_heads, "k_proj": config.num_key_value_heads}

    def _raw(self, info: TensorInfo) -> NDArray[np.uint8]:
        return np.memmap(self._file_of[info.name], np.uint8, "r", info.offset, (_bytes_of(info),))

    def _read_if_stored(self, name: str) -> Tensor | None:
        return self._read(self._stored[name]) if name in self._stored else None

    def _read(self, info: TensorInfo) -> Tensor:
        kind = gguf.GGMLQuantizationType(info.ggml_type)
        raw = self._raw(info)
        try:
            values = _PLAIN[kind](raw) if kind in _PLAIN else gguf_blocks.dequantise(raw, kind)
        except NotImplementedError as error:
            raise UnsupportedModel(f"{info.name} is quantised as {kind.name}, which we can't read") from error
        return torch.from_numpy(np.array(values, np.float32)).reshape(info.shape)


_PLAIN: dict[gguf.GGMLQuantizationType, Any] = {
    gguf.GGMLQuantizationType.F32: lambda raw: raw.view(np.float32),
    gguf.GGMLQuantizationType.F16: lambda raw: raw.view(np.float16),
}


def _is_quantised(info: TensorInfo) -> bool:
    return gguf_blocks.is_quantised(info.ggml_type, info.shape)


def _module(name: str) -> str:
    """Return the name of the module of a parameter: `q_proj` of `model.layers.0.self_attn.q_proj.weight`."""
    return name.rpartition(".")[0].rpartition(".")[2]


def _joined_shape(shapes: list[tuple[int, ...]]) -> tuple[int, ...]:
    """Return the shape of tensors that are joined in their last dimension but one.

    Raises:
        BadWeights: they differ in another dimension.
    """
    first, *others = shapes
    if not others:
        return first
    if any((*shape[:-2], *shape[-1:]) != (*first[:-2], *first[-1:]) or len(shape) < 2 for shape in shapes):
        raise BadWeights(f"gates and ups of experts have shapes that don't fit: {shapes}")
    return (*first[:-2], sum(shape[-2] for shape in shapes), first[-1])


def _interleaved(parts: list[Tensor]) -> Tensor:
    """Return experts' matrices transposed, or their biases; of gates and ups, each gate is beside its up.

    Args:
        parts: [experts, outputs, inputs] or, of biases, [experts, outputs]; all of one shape.

    Returns:
        [experts, inputs, outputs of all parts] or [experts, outputs of all parts].
    """
    outputs_last = [part.transpose(1, 2) if part.ndim == 3 else part for part in parts]
    return torch.stack(outputs_last, dim=-1).flatten(-2)


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
