"""Repacks the quantised blocks of a GGUF tensor as the int4 or int8 weights of the CPU kernels.

A kernel's weight has one scale per 32 inputs, in int4 also a minimum; ggml's formats have theirs per 16 or 32 inputs:

| ggml type | repacked as | error |
|---|---|---|
| Q4_0, Q4_1, Q4_K | int4 | none |
| Q8_0, Q5_0, Q3_K, IQ4_NL, IQ4_XS, MXFP4 | int8 | none |
| Q6_K | int8 | none in 16 inputs, in the other 16 at most 1/8 of the larger of their two scales (1/4 if opposite) |
| Q5_1, Q5_K, Q2_K and all others | int8 | at most 1/254 of the group's largest weight |

The kernels' scales and minimums are float16, which rounds those of K-quants and of IQ4_XS (products of a float16 and
a small integer) by at most 1/2048 of their value.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import cast

import gguf
import numpy as np
import torch
from gguf import GGMLQuantizationType as Kind
from numpy.typing import NDArray
from torch import Tensor

from inference_worker.engine.native.packing import GROUP, Int4Values, Int8Values, concatenate
from inference_worker.engine.weights.grouped_weight import check_finite

Bytes = NDArray[np.uint8]
Floats = NDArray[np.float32]

FLOATS = frozenset({Kind.F32, Kind.F16, Kind.BF16, Kind.F64})
"""The ggml types that are not quantised."""

_AT_ONCE = 1 << 22
"""Weights that are repacked at once: bounds the temporary memory."""


def is_quantised(kind: int, shape: tuple[int, ...]) -> bool:
    """Return whether a tensor is a quantised matrix that `unpack` can repack: whole groups of 32 inputs."""
    return len(shape) == 2 and Kind(kind) not in FLOATS and shape[1] % GROUP == 0


def is_int4(kind: int) -> bool:
    """Return whether `unpack` repacks matrices of the ggml type `kind` as int4."""
    return Kind(kind) in _INT4


def dequantise(raw: Bytes, kind: int) -> Floats:
    """Return the values of a tensor of the ggml type `kind` as one row.

    By 4 MiB at a time: the `gguf` library alone goes by 16 rows, which is slower.

    Raises:
        NotImplementedError: the `gguf` library can't dequantise this type.
    """
    block, size = gguf.GGML_QUANT_SIZES[Kind(kind)]
    step = (1 << 20) // block * size
    with np.errstate(invalid="ignore", over="ignore"):  # of scales that are infinite: `unpack` refuses them
        parts = [gguf.quants.dequantize(raw[at : at + step][None], Kind(kind))[0] for at in range(0, raw.size, step)]
    return np.concatenate(parts)


def unpack(raw: Bytes, kind: int, rows: int) -> Int4Values | Int8Values:
    """Repack the quantised matrix of a GGUF tensor as int4 or int8 codes, with scales and, in int4, minimums.

    Args:
        raw: the tensor's bytes.
        kind: its ggml type.
        rows: its number of rows.

    Raises:
        BadWeights: a scale or minimum is not finite as float16.
        NotImplementedError: the `gguf` library can't dequantise this type.
    """
    block, size = gguf.GGML_QUANT_SIZES[Kind(kind)]
    row_bytes = raw.size // rows
    step = max(_AT_ONCE // (row_bytes // size * block), 1) * row_bytes
    with np.errstate(invalid="ignore", over="ignore"):
        parts = [_unpack_rows(raw[at : at + step], Kind(kind), row_bytes) for at in range(0, raw.size, step)]
    values = cast(Int4Values | Int8Values, concatenate(parts))
    check_finite(values)
    return values


def _unpack_rows(raw: Bytes, kind: Kind, row_bytes: int) -> Int4Values | Int8Values:
    rows = raw.size // row_bytes
    blocks = raw.reshape(-1, gguf.GGML_QUANT_SIZES[kind][1])
    if kind in _INT4:
        return Int4Values(*(torch.from_numpy(part.reshape(rows, -1)) for part in _INT4[kind](blocks)))
    if kind == Kind.Q8_0:
        codes = torch.from_numpy(blocks[:, 2:].reshape(rows, -1)).view(torch.int8)
        return Int8Values(codes, _by_row(_half(blocks, 0), rows))
    weight = torch.from_numpy(dequantise(raw, kind)).view(rows, -1)
    if kind in _INT8_SCALES:
        return Int8Values.at(weight, _by_row(_INT8_SCALES[kind](blocks), rows))
    return Int8Values.of(weight)


def _by_row(scales: Floats, rows: int) -> Tensor:
    return torch.from_numpy(np.ascontiguousarray(scales, np.float32).reshape(rows, -1))


def _half(blocks: Bytes, at: int) -> Floats:
    """Return the float16 at byte `at` of each block, [blocks, 1]."""
    return np.ascontiguousarray(blocks[:, at : at + 2]).view(np.float16).astype(np.float32)


def _nibbles(packed: Bytes) -> Bytes:
    """Split bytes into 4-bit codes: the low halves of a group's 16 or 32 bytes first, then the high halves."""
    return np.stack((packed & 15, packed >> 4), axis=-2)


def _q4_0(blocks: Bytes) -> tuple[Bytes, Floats, Floats]:
    scales = _half(blocks, 0)
    return _nibbles(blocks[:, 2:]), scales, -8 * scales


def _q4_1(blocks: Bytes) -> tuple[Bytes, Floats, Floats]:
    return _nibbles(blocks[:, 4:]), _half(blocks, 0), _half(blocks, 2)


def _q4_k(blocks: Bytes) -> tuple[Bytes, Floats, Floats]:
    """Eight groups with scales and minimums of 6 bits, which are multiplied by a float16 each."""
    scales, minimums = gguf.quants.Q4_K.get_scale_min(np.ascontiguousarray(blocks[:, 4:16]))
    codes = _nibbles(blocks[:, 16:].reshape(-1, 4, GROUP))
    return codes, _half(blocks, 0) * scales.astype(np.float32), _half(blocks, 2) * -minimums.astype(np.float32)


_INT4: Mapping[Kind, Callable[[Bytes], tuple[Bytes, Floats, Floats]]] = MappingProxyType(
    {Kind.Q4_0: _q4_0, Kind.Q4_1: _q4_1, Kind.Q4_K: _q4_k}
)
"""Functions that return codes, scales and minimums, group by group."""


def _q3_k(blocks: Bytes) -> Floats:
    """The negative scale of a block: codes are then products of a sub-scale and a 3-bit code, -124 to 128, negated."""
    return np.repeat(-_half(blocks, 108), 8, axis=1)


def _q6_k(blocks: Bytes) -> Floats:
    """A quarter of the larger of two sub-scales: the codes of its 16 inputs are 6-bit codes times four."""
    pairs = np.ascontiguousarray(blocks[:, 192:208]).view(np.int8).reshape(-1, 8, 2).astype(np.float32)
    first, second = pairs[..., 0], pairs[..., 1]
    larger: Floats = np.where(np.abs(first) >= np.abs(second), first, second)
    quarter: Floats = np.float32(0.25) * larger
    return _half(blocks, 208) * quarter


def _iq4_xs(blocks: Bytes) -> Floats:
    """Eight groups with scales of 6 bits, of which two are apart."""
    low = np.stack((blocks[:, 4:8] & 15, blocks[:, 4:8] >> 4), axis=-1).reshape(-1, 8)
    high = np.ascontiguousarray(blocks[:, 2:4]).view(np.uint16) >> np.arange(0, 16, 2, dtype=np.uint16) & 3
    scales: Floats = (low | high << 4).astype(np.float32) - 32
    return _half(blocks, 0) * scales


def _mxfp4(blocks: Bytes) -> Floats:
    """Half the power of two that a byte stands for: codes are twice the fp4 numbers, whole numbers from -12 to 12."""
    return np.ldexp(np.float32(1), blocks[:, :1].astype(np.int32) - 128).astype(np.float32)


_INT8_SCALES: Mapping[Kind, Callable[[Bytes], Floats]] = MappingProxyType(
    {
        Kind.Q5_0: lambda blocks: _half(blocks, 0),
        Kind.IQ4_NL: lambda blocks: _half(blocks, 0),
        Kind.Q3_K: _q3_k,
        Kind.Q6_K: _q6_k,
        Kind.IQ4_XS: _iq4_xs,
        Kind.MXFP4: _mxfp4,
    }
)
"""Functions that return the scales by which a format's weights are whole numbers of at most 8 bits, group by group."""
