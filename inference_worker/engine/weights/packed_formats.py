"""Layouts of GPTQ and AWQ checkpoints: codes packed in int32 words, [in, out].

Both have a float16 scale and a packed zero for each group of inputs and each output: `weight = (code - zero) * scale`.

GPTQ as AutoGPTQ and GPTQModel write it (repository AutoGPTQ/AutoGPTQ, `QuantLinear` of its module `qlinear_cuda`): a
word has codes of following inputs in `qweight`, [in * bits / 32, out], of following outputs in `qzeros`, [groups,
out * bits / 32]; `g_idx` is each input's group. Version 1 stores zeros less one, version 2 (`gptq_v2`) as they are.

AWQ as AutoAWQ writes it (repository casper-hansen/AutoAWQ, its module `packing_utils`; version `gemm`): a word has
eight outputs, in `qweight`, [in, out / 8], and `qzeros`, [groups, out / 8], in the order 0, 2, 4, 6, 1, 3, 5, 7.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

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

_PACKED_BITS = (2, 4, 8)
_AWQ_NIBBLES = [0, 4, 1, 5, 2, 6, 3, 7]
"""Positions of eight following outputs in a word."""


class GPTQFormat:
    """The layout of a GPTQ checkpoint.

    Raises:
        UnsupportedModel: the configuration has another layout or number of bits; the message names the field.
    """

    parts = frozenset({"qweight", "qzeros", "scales", "g_idx"})
    unused = frozenset[str]()

    def __init__(self, config: Mapping[str, Any]) -> None:
        self._bits = field(config, "bits", _PACKED_BITS)
        self.narrow = self._bits <= 4
        layout = field(config, "checkpoint_format", ("gptq", "gptq_v2"), default="gptq")
        field(config, "pack_dtype", ("int32",), default="int32")
        field(config, "is_marlin_format", (False,), default=False)
        dynamic = config.get("dynamic")
        changes = dynamic.values() if isinstance(dynamic, dict) else ()
        if any(change.get("bits", self._bits) != self._bits for change in changes if isinstance(change, dict)):
            refuse("dynamic", "modules with other bits than `bits`")
        self._stored_less = 1 if layout == "gptq" else 0

    def is_quantised(self, names: set[str]) -> bool:
        """Return whether a module with tensors of these names has a quantised matrix."""
        return "qweight" in names

    def shape(self, found: Mapping[str, Shape], _: Callable[[str], Tensor]) -> Shape:
        """Return the shape of a matrix, (out, in), from those of its parts; raises `BadWeights` if they don't fit."""
        per_word = 32 // self._bits
        (words, outputs), (groups, _outputs) = _as_matrix(found, "qweight"), _as_matrix(found, "scales")
        inputs = words * per_word
        expected = {"qzeros": (groups, outputs // per_word), "scales": (groups, outputs), "g_idx": (inputs,)}
        _check_shapes(found, expected, inputs)
        return outputs, inputs

    def read(self, parts: Mapping[str, Tensor]) -> GroupedWeight:
        """Return the matrix of these parts; raises `BadWeights` if an input's group is none of the matrix's."""
        codes = unpack_words(int32_part(parts, "qweight").T, self._bits)
        zeros = unpack_words(int32_part(parts, "qzeros"), self._bits).T.float() + self._stored_less
        scales = parts["scales"].T.float()
        groups = scales.shape[1]
        given = parts.get("g_idx")
        group_of = groups_of(codes.shape[1], groups) if given is None else groups_in_range(given, groups)
        return GroupedWeight(codes, scales, zeros, group_of, self._bits)


class AWQFormat:
    """The layout of an AWQ checkpoint.

    Raises:
        UnsupportedModel: the configuration has another layout or number of bits; the message names the field.
    """

    parts = frozenset({"qweight", "qzeros", "scales"})
    unused = frozenset[str]()
    narrow = True

    def __init__(self, config: Mapping[str, Any]) -> None:
        field(config, "w_bit" if "w_bit" in config else "bits", (4,))
        field({"version": str(config.get("version", "gemm")).lower()}, "version", ("gemm",))

    def is_quantised(self, names: set[str]) -> bool:
        """Return whether a module with tensors of these names has a quantised matrix."""
        return "qweight" in names

    def shape(self, found: Mapping[str, Shape], _: Callable[[str], Tensor]) -> Shape:
        """Return the shape of a matrix, (out, in), from those of its parts; raises `BadWeights` if they don't fit."""
        (inputs, words), (groups, _outputs) = _as_matrix(found, "qweight"), _as_matrix(found, "scales")
        _check_shapes(found, {"qzeros": (groups, words), "scales": (groups, words * 8)}, inputs)
        return words * 8, inputs

    def read(self, parts: Mapping[str, Tensor]) -> GroupedWeight:
        """Return the matrix of these parts."""
        codes, zeros = (_awq_outputs(int32_part(parts, name)) for name in ("qweight", "qzeros"))
        scales = parts["scales"].T.float()
        return GroupedWeight(codes, scales, zeros.float(), groups_of(codes.shape[1], scales.shape[1]), 4)


def _awq_outputs(words: Tensor) -> Tensor:
    """Unpack [n, out / 8] words to [out, n] codes."""
    return unpack_words(words, 4).view(len(words), -1, 8)[..., _AWQ_NIBBLES].flatten(1).T.contiguous()


def _as_matrix(found: Mapping[str, Shape], name: str) -> Shape:
    if len(found.get(name, ())) != 2 or not all(found[name]):
        raise BadWeights(f"{name} is missing or no matrix")
    return found[name]


def _check_shapes(found: Mapping[str, Shape], expected: Mapping[str, Shape], inputs: int) -> None:
    for name, shape in expected.items():
        if found.get(name, shape if name == "g_idx" else None) != shape:
            raise BadWeights(f"{name} is {found.get(name)}, by the shape of qweight it should be {shape}")
    groups = expected["scales"][0]
    if inputs % groups:
        raise BadWeights(f"{inputs} inputs can't be {groups} groups")
