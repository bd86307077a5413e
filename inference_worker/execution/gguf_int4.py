"""The int4 formats of a GGUF as codes, scales and minimums, nothing rounded. Knows blocks, not files or names.

Layout (ggml's `block_q4_0`, `block_q4_1`): 32 weights of a row are a float16 scale, in Q4_1 a float16 minimum, and 16
bytes whose low halves are the first 16 codes. A weight is `code * scale + minimum`; in Q4_0 the minimum is -8 scales.
"""

from __future__ import annotations

import gguf
import numpy as np
import torch
from numpy.typing import NDArray

from inference_worker.layers.quantized_linear import GROUP, Int4Values

_Q4_0 = int(gguf.GGMLQuantizationType.Q4_0)
_Q4_1 = int(gguf.GGMLQuantizationType.Q4_1)
KINDS = frozenset({_Q4_0, _Q4_1})


def unpack(raw: NDArray[np.uint8], kind: int, rows: int) -> Int4Values:
    """The values of a matrix of `rows` rows, stored as `kind`, one of `KINDS`."""
    header = 2 if kind == _Q4_0 else 4
    blocks = raw.reshape(rows, -1, header + GROUP // 2)
    halves = np.ascontiguousarray(blocks[..., :header]).view(np.float16).astype(np.float32)
    scales = halves[..., 0]
    minimums = -8 * scales if kind == _Q4_0 else halves[..., 1]
    packed = blocks[..., header:]
    codes = np.concatenate((packed & 15, packed >> 4), axis=-1).reshape(rows, -1)
    tensors = (torch.from_numpy(np.ascontiguousarray(part)) for part in (codes, scales, minimums))
    return Int4Values(*tensors)
