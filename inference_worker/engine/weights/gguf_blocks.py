"""Unpacks the quantised blocks of a GGUF tensor to codes, scales and minimums, without rounding.

Layout (ggml's `block_q4_0`, `block_q4_1`, `block_q8_0`): 32 weights of a row are a float16 scale, in Q4_1 a float16
minimum, then the codes: 32 bytes in Q8_0, else 16 bytes whose low halves are the first 16 codes. A weight is
`code * scale + minimum`; in Q4_0 the minimum is -8 scales, in Q8_0 codes are signed and there is none.
"""

from __future__ import annotations

import gguf
import numpy as np
import torch
from numpy.typing import NDArray

from inference_worker.engine.native.packing import GROUP, Int4Values, Int8Values

_Q4_0 = int(gguf.GGMLQuantizationType.Q4_0)
_Q4_1 = int(gguf.GGMLQuantizationType.Q4_1)
_Q8_0 = int(gguf.GGMLQuantizationType.Q8_0)
KINDS = frozenset({_Q4_0, _Q4_1, _Q8_0})


def unpack(raw: NDArray[np.uint8], kind: int, rows: int) -> Int4Values | Int8Values:
    """Unpack the quantised matrix of a GGUF tensor to its codes, scales and, in int4, minimums.

    Args:
        raw: the tensor's bytes.
        kind: its ggml type, one of `KINDS`.
        rows: its number of rows.
    """
    header = 4 if kind == _Q4_1 else 2
    blocks = raw.reshape(rows, -1, header + (GROUP if kind == _Q8_0 else GROUP // 2))
    halves = np.ascontiguousarray(blocks[..., :header]).view(np.float16).astype(np.float32)
    scales, packed = torch.from_numpy(halves[..., 0].copy()), np.ascontiguousarray(blocks[..., header:])
    if kind == _Q8_0:
        return Int8Values(torch.from_numpy(packed).view(torch.int8).flatten(1), scales)
    codes = torch.from_numpy(np.concatenate((packed & 15, packed >> 4), axis=-1).reshape(rows, -1))
    minimums = -8 * scales if kind == _Q4_0 else torch.from_numpy(halves[..., 1].copy())
    return Int4Values(codes, scales, minimums)
