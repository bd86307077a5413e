"""Triton kernels for products with weight matrices, quantised or not; `weight_tile` alone decodes the formats.

| FORMAT | codes | weight |
|---|---|---|
| `float` | [out, in] of any floating-point type | the code |
| `int8` | [out, in] int8 | code * scale |
| `fp8` | [out, in] uint8, the bits of e4m3 without infinities (float8_e4m3fn) | code * scale |
| `int4` | [out, in / 2] uint8, input 2i in the low half of byte i, 2i + 1 in the high | code * scale + minimum |

Scales and minimums are [out, in / GROUP] of any floating-point type. Strides count elements; the last dimension is
always dense.
"""

from __future__ import annotations

import triton
import triton.language as tl


@triton.jit
def weight_tile(
    codes_ptr,
    scales_ptr,
    minimums_ptr,
    rows,
    limit,
    first,
    inputs,
    FORMAT: tl.constexpr,
    GROUP: tl.constexpr,
    BLOCK_OUT: tl.constexpr,
    BLOCK_IN: tl.constexpr,
):
    """Return the weights of outputs `rows`, [BLOCK_OUT], and inputs `first` to `first` + BLOCK_IN as float32.

    Weights of rows from `limit` on and of columns from `inputs` on are 0. BLOCK_IN is a multiple of GROUP or divides
    it. Part of a kernel, not launched itself.
    """
    is_row = (rows < limit)[:, None]
    start = rows.to(tl.int64)[:, None]
    if FORMAT == "int4":
        pairs = first // 2 + tl.arange(0, BLOCK_IN // 2)[None, :]
        inside = is_row & (pairs < inputs // 2)
        both = tl.load(codes_ptr + start * (inputs // 2) + pairs, mask=inside, other=0)
        codes = tl.interleave(both & 15, both >> 4).to(tl.float32)
    else:
        columns = first + tl.arange(0, BLOCK_IN)[None, :]
        stored = tl.load(codes_ptr + start * inputs + columns, mask=is_row & (columns < inputs), other=0)
        if FORMAT == "fp8":
            # As bits of a float16 the exponent's bias is 15 instead of 7. Not every GPU converts e4m3 itself.
            bits = stored.to(tl.uint16)
            halves = ((bits & 0x80) << 8) | ((bits & 0x7F) << 7)
            codes = halves.to(tl.float16, bitcast=True).to(tl.float32) * 256.0
        else:
            codes = stored.to(tl.float32)
    if FORMAT != "float":
        WITHIN: tl.constexpr = GROUP if GROUP < BLOCK_IN else BLOCK_IN
        groups = first // GROUP + tl.arange(0, BLOCK_IN // WITHIN)[None, :]
        count = inputs // GROUP
        at = start * count + groups
        inside = is_row & (groups < count)
        scales = tl.load(scales_ptr + at, mask=inside, other=0.0).to(tl.float32)
        grouped = tl.reshape(codes, [BLOCK_OUT, BLOCK_IN // WITHIN, WITHIN]) * scales[:, :, None]
        if FORMAT == "int4":
            grouped += tl.load(minimums_ptr + at, mask=inside, other=0.0).to(tl.float32)[:, :, None]
        codes = tl.reshape(grouped, [BLOCK_OUT, BLOCK_IN])
    return codes


@triton.jit(do_not_specialize=["tokens"])  # it changes from step to step
def product_kernel(
    out_ptr,
    x_ptr,
    codes_ptr,
    scales_ptr,
    minimums_ptr,
    bias_ptr,
    tokens,
    inputs,
    outputs,
    BIAS: tl.constexpr,
    FORMAT: tl.constexpr,
    GROUP: tl.constexpr,
    BLOCK_ROWS: tl.constexpr,
    BLOCK_OUT: tl.constexpr,
    BLOCK_IN: tl.constexpr,
    STAGES: tl.constexpr,
    PRODUCT: tl.constexpr,
):
    """Triton kernel that multiplies vectors by a quantised matrix, `x @ weight.T + bias`.

    A tile of weights is dequantised and rounded to the product's format, then multiplied by tensor cores with all rows
    of a block. With few rows the time is that of reading the codes. Grid: (outputs / BLOCK_OUT, tokens / BLOCK_ROWS).

    Args:
        out_ptr: [tokens, outputs], written.
        x_ptr: [tokens, inputs].
        codes_ptr, scales_ptr, minimums_ptr: the matrix; minimums are read in int4 only.
        bias_ptr: [outputs], not read without BIAS.
        BLOCK_ROWS, BLOCK_OUT, BLOCK_IN: rows of x, outputs and inputs of one matrix product; powers of two.
        STAGES: steps whose codes and vectors are loaded ahead.
        PRODUCT: the number format of matrix products.
    """
    outs = tl.program_id(0) * BLOCK_OUT + tl.arange(0, BLOCK_OUT)
    rows = tl.program_id(1) * BLOCK_ROWS + tl.arange(0, BLOCK_ROWS)
    at_row = rows.to(tl.int64)[None, :]
    is_row = (rows < tokens)[None, :]
    sums = tl.zeros([BLOCK_OUT, BLOCK_ROWS], tl.float32)
    for first in tl.range(0, inputs, BLOCK_IN, num_stages=STAGES):
        weights = weight_tile(
            codes_ptr, scales_ptr, minimums_ptr, outs, outputs, first, inputs, FORMAT, GROUP, BLOCK_OUT, BLOCK_IN
        )
        columns = first + tl.arange(0, BLOCK_IN)[:, None]
        x = tl.load(x_ptr + at_row * inputs + columns, mask=is_row & (columns < inputs), other=0.0)
        # Weights are the first factor, which tensor cores read from registers, where they are dequantised.
        sums = tl.dot(weights.to(PRODUCT), x.to(PRODUCT), sums, input_precision="ieee")
    is_out = outs < outputs
    if BIAS:
        sums += tl.load(bias_ptr + outs, mask=is_out, other=0.0).to(tl.float32)[:, None]
    at = out_ptr + at_row * outputs + outs[:, None]
    tl.store(at, sums.to(out_ptr.dtype.element_ty), mask=is_row & is_out[:, None])
