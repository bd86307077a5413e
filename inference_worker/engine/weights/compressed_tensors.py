"""Layouts of compressed-tensors checkpoints (llm-compressor, vLLM), and of those of quantisation method `fp8`.

As the library `compressed-tensors` writes them (repository vllm-project/compressed-tensors, `pack_quantized` and
`naive_quantized`). A quantised module has either

- `weight_packed`, [out, in * bits / 32] int32: codes of following inputs in a word, the lowest bits first, each plus
  2 ** (bits - 1); `weight_shape`, the size of the matrix; `weight_zero_point`, [out * bits / 32, groups] int32, packed
  in the same way along the outputs; and perhaps `weight_g_idx`, [in], each input's group; or
- `weight`, [out, in] int8 or float8_e4m3fn, and perhaps `weight_zero_point` of the scales' shape;

and `weight_scale`: one number, [out, 1], [out, groups], or one for each block, [out / rows, in / columns]. Method `fp8`
(DeepSeek, Qwen) has the latter with `weight_scale_inv`, by which weights are multiplied too.

How activations were quantised is not read: the engine computes with activations as its settings say.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from typing import Any

import torch
from torch import Tensor

from inference_worker.engine.weights.grouped_weight import (
    GroupedWeight,
    groups_in_range,
    groups_of,
    int32_part,
    unpack_words,
)
from inference_worker.engine.weights.quantisation_config import field, refuse
from inference_worker.engine.weights.weights import Shape
from inference_worker.errors import BadWeights

_FORMATS = ("pack-quantized", "int-quantized", "float-quantized", "naive-quantized", "mixed-precision")
_STRATEGIES = ("channel", "group", "tensor", "block")
_BITS = {"int": (2, 4, 8), "float": (8,)}
_CODES = {torch.int8, torch.float8_e4m3fn}


class CompressedTensorsFormat:
    """The layouts of compressed-tensors checkpoints.

    Raises:
        UnsupportedModel: the configuration has another format; the message names the field.
    """

    parts = frozenset(
        {"weight", "weight_packed", "weight_scale", "weight_scale_inv", "weight_zero_point", "weight_g_idx"}
        | {"weight_shape"}
    )
    unused = frozenset(
        f"{value}_{number}" for value in ("input", "output", "q", "k", "v") for number in ("scale", "zero_point")
    ) | {"activation_scale", "input_global_scale"}
    """Parts with scales of activations and of the KV cache."""

    def __init__(self, config: Mapping[str, Any]) -> None:
        self._bits = {8}
        self._block = _block(config, "weight_block_size")
        self.narrow = False
        if config["quant_method"] == "fp8":
            field(config, "fmt", ("e4m3",), default="e4m3")
            return
        field(config, "format", _FORMATS)
        field(config, "quantization_status", ("compressed",), default="compressed")
        for name in ("transform_config", "sparsity_config"):
            if (value := config.get(name)) and (not isinstance(value, dict) or value.get("format") != "dense"):
                refuse(name, repr(value)[:80])
        groups = config.get("config_groups")
        if not isinstance(groups, dict) or not groups:
            refuse("config_groups", "a value that is no object of groups")
        self._bits = {self._read_group(f"config_groups.{name}", group) for name, group in groups.items()}
        self.narrow = min(self._bits) <= 4

    def _read_group(self, path: str, group: Any) -> int:
        """Check a group of modules, and return the bits of its codes."""
        weights = group.get("weights") if isinstance(group, dict) else None
        if not isinstance(weights, dict):
            refuse(path, "a group without `weights`")
        named = {f"{path}.weights.{name}": value for name, value in weights.items()}
        kind = field(named, f"{path}.weights.type", tuple(_BITS), default="int")
        field(named, f"{path}.weights.strategy", _STRATEGIES, default="tensor")
        field({f"{path}.format": group.get("format")}, f"{path}.format", _FORMATS, default=_FORMATS[0])
        self._block = _block(named, f"{path}.weights.block_structure") or self._block
        return field(named, f"{path}.weights.num_bits", _BITS[kind], default=8)

    def is_quantised(self, names: set[str]) -> bool:
        """Return whether a module with tensors of these names has a quantised matrix."""
        return "weight_packed" in names or ("weight" in names and bool({"weight_scale", "weight_scale_inv"} & names))

    def shape(self, found: Mapping[str, Shape], read: Callable[[str], Tensor]) -> Shape:
        """Return the shape of a matrix, (out, in), from those of its parts; `read` reads the part `weight_shape`.

        Raises:
            BadWeights: the parts don't fit.
        """
        shape, scale = found.get("weight", ()), found.get("weight_scale", found.get("weight_scale_inv", ()))
        zeros = scale
        if packed := found.get("weight_packed"):
            shape = _stored_shape(read("weight_shape")) if found.get("weight_shape") == (2,) else ()
            bits = self._packed_bits(packed, shape)
            zeros = (math.ceil(shape[0] * bits / 32), *scale[1:])
        self._groups(shape, scale)
        for name, expected in (("weight_zero_point", zeros), ("weight_g_idx", shape[1:])):
            if found.get(name, expected) != expected:
                raise BadWeights(f"{name} is {list(found[name])}, it should be {list(expected)}")
        return shape

    def read(self, parts: Mapping[str, Tensor]) -> GroupedWeight:
        """Return the matrix of parts whose shapes fit.

        Raises:
            BadWeights: the codes are of a type that the formats don't have, or an input's group does not exist.
        """
        scales = parts["weight_scale" if "weight_scale" in parts else "weight_scale_inv"].float()
        zeros = parts.get("weight_zero_point")
        if "weight_packed" in parts:
            shape = _stored_shape(parts["weight_shape"])
            bits = self._packed_bits(tuple(parts["weight_packed"].shape), shape)
            codes = unpack_words(int32_part(parts, "weight_packed"), bits)[:, : shape[1]]
            if zeros is not None:
                zeros = unpack_words(int32_part(parts, "weight_zero_point").T, bits)[:, : shape[0]].T
            else:
                zeros = torch.full_like(scales, 2 ** (bits - 1))
        else:
            codes, bits = parts["weight"], 8
            shape = tuple(codes.shape)
            if codes.dtype not in _CODES:
                raise BadWeights(f"weight is {codes.dtype}, not int8 or float8_e4m3fn")
        rows, columns = self._groups(shape, tuple(scales.shape))
        if "weight_g_idx" in parts:
            columns = groups_in_range(parts["weight_g_idx"], _as_matrix(scales).shape[1])
        return GroupedWeight(
            codes, _as_matrix(scales)[rows], None if zeros is None else _as_matrix(zeros.float())[rows], columns, bits
        )

    def _packed_bits(self, packed: Shape, shape: Shape) -> int:
        for bits in self._bits:
            if len(shape) == 2 and packed == (shape[0], math.ceil(shape[1] * bits / 32)):
                return bits
        raise BadWeights(f"weight_packed is {list(packed)}, which does not fit weight_shape {list(shape)}")

    def _groups(self, shape: Shape, scale: Shape) -> tuple[Tensor, Tensor]:
        """Return the row and the column of the scales for each output and each input of a matrix.

        Raises:
            BadWeights: the scales don't fit the matrix.
        """
        if len(shape) == 2 and all(shape) and len(scale) <= 2 and all(scale):
            (outputs, inputs), (rows, columns) = shape, (*scale, 1, 1)[:2]
            high, wide = self._block or (1, inputs)
            if (rows, columns) == (-(-outputs // high), -(-inputs // wide)):
                return torch.arange(outputs) // high, torch.arange(inputs) // wide
            if rows in (1, outputs) and inputs % columns == 0:
                return torch.arange(outputs) * (rows > 1), groups_of(inputs, columns)
        raise BadWeights(f"weight_scale is {list(scale)}, which does not fit a matrix of {list(shape)}")


def _block(config: Mapping[str, Any], name: str) -> tuple[int, int] | None:
    match config.get(name):
        case None:
            return None
        case [int(rows), int(columns)] if rows > 0 and columns > 0:
            return rows, columns
    return refuse(name, repr(config[name]))


def _stored_shape(weight_shape: Tensor) -> Shape:
    return tuple(map(int, weight_shape))


def _as_matrix(scales: Tensor) -> Tensor:
    return scales.reshape((*scales.shape, 1, 1)[:2])
