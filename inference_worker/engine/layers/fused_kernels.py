"""Triton kernels for the operations between a decoder's matrix products, each of which replaces several launches.

Computed in float32 and rounded once. Strides count elements; the last dimension is always dense.
"""

from __future__ import annotations

import triton
import triton.language as tl

from inference_worker.engine.layers.quantised_kernels import weight_tile


@triton.jit
def add_norm_kernel(out_ptr, stream_ptr, delta_ptr, weight_ptr, eps, WIDTH: tl.constexpr, PADDED: tl.constexpr):
    """Triton kernel that adds `delta` to the residual stream in place, and writes the sum's `RMSNorm` to `out`.

    Grid: (T,). All but the weight are [T, WIDTH]. PADDED: the power of two above WIDTH.
    """
    columns = tl.arange(0, PADDED)
    inside = columns < WIDTH
    at = tl.program_id(0).to(tl.int64) * WIDTH + columns
    stream = tl.load(stream_ptr + at, mask=inside, other=0.0)
    delta = tl.load(delta_ptr + at, mask=inside, other=0.0)
    total = (stream.to(tl.float32) + delta.to(tl.float32)).to(stream.dtype)
    tl.store(stream_ptr + at, total, mask=inside)
    x = total.to(tl.float32)
    scale = tl.rsqrt(tl.sum(x * x, 0) / WIDTH + eps)
    weight = tl.load(weight_ptr + columns, mask=inside, other=0.0).to(tl.float32)
    tl.store(out_ptr + at, (x * scale * weight).to(stream.dtype), mask=inside)


@triton.jit
def position_kernel(
    heads_ptr,
    cos_ptr,
    sin_ptr,
    query_weight_ptr,
    key_weight_ptr,
    row_stride,
    eps,
    QUERY_HEADS: tl.constexpr,
    HEADS: tl.constexpr,
    PADDED_HEADS: tl.constexpr,
    HALF: tl.constexpr,
    PADDED_HALF: tl.constexpr,
    NORM: tl.constexpr,
    ROTARY: tl.constexpr,
):
    """Triton kernel that normalises (if NORM) and rotates (if ROTARY) one token's query and key heads in place.

    Grid: (T,). `heads_ptr`: rows `row_stride` apart, of HEADS heads of 2 * HALF, queries first. `cos_ptr`, `sin_ptr`:
    [T, HALF]. The weights are [2 * HALF], and not read without NORM.
    """
    row = tl.program_id(0).to(tl.int64)
    head = tl.arange(0, PADDED_HEADS)[:, None]
    dim = tl.arange(0, PADDED_HALF)[None, :]
    inside = (head < HEADS) & (dim < HALF)
    at = heads_ptr + row * row_stride + head * (2 * HALF) + dim
    first_in = tl.load(at, mask=inside, other=0.0)
    first, second = first_in.to(tl.float32), tl.load(at + HALF, mask=inside, other=0.0).to(tl.float32)
    if NORM:
        scale = tl.rsqrt((tl.sum(first * first, 1) + tl.sum(second * second, 1)) / (2 * HALF) + eps)[:, None]
        is_query, is_key = inside & (head < QUERY_HEADS), inside & (head >= QUERY_HEADS)
        query_first = tl.load(query_weight_ptr + dim, mask=is_query, other=0.0)
        key_first = tl.load(key_weight_ptr + dim, mask=is_key, other=0.0)
        query_second = tl.load(query_weight_ptr + HALF + dim, mask=is_query, other=0.0)
        key_second = tl.load(key_weight_ptr + HALF + dim, mask=is_key, other=0.0)
        first *= scale * (query_first + key_first).to(tl.float32)
        second *= scale * (query_second + key_second).to(tl.float32)
    if ROTARY:
        angle = row * HALF + dim
        cos = tl.load(cos_ptr + angle, mask=dim < HALF, other=0.0).to(tl.float32)
        sin = tl.load(sin_ptr + angle, mask=dim < HALF, other=0.0).to(tl.float32)
        first, second = first * cos - second * sin, second * cos + first * sin
    tl.store(at, first.to(first_in.dtype), mask=inside)
    tl.store(at + HALF, second.to(first_in.dtype), mask=inside)


@triton.jit
def gate_kernel(out_ptr, both_ptr, inner, BLOCK: tl.constexpr):
    """Triton kernel that computes `silu(gate) * up`, the activation of a gated feed-forward layer.

    Grid: (T, inner / BLOCK). `both_ptr`: [T, 2 * inner], gate first, read; `out_ptr`: [T, inner], written.
    """
    row = tl.program_id(0).to(tl.int64)
    columns = tl.program_id(1) * BLOCK + tl.arange(0, BLOCK)
    inside = columns < inner
    at = both_ptr + row * 2 * inner + columns
    gate = tl.load(at, mask=inside, other=0.0)
    up = tl.load(at + inner, mask=inside, other=0.0).to(tl.float32)
    x = gate.to(tl.float32)
    tl.store(out_ptr + row * inner + columns, (x * tl.sigmoid(x) * up).to(gate.dtype), mask=inside)


@triton.jit
def row_projection_kernel(
    out_ptr,
    x_ptr,
    codes_ptr,
    scales_ptr,
    minimums_ptr,
    bias_ptr,
    norm_ptr,
    inputs,
    outputs,
    eps,
    FORMAT: tl.constexpr,
    GROUP: tl.constexpr,
    BLOCK_OUT: tl.constexpr,
    BLOCK_IN: tl.constexpr,
    STAGES: tl.constexpr,
    BIAS: tl.constexpr,
    NORM: tl.constexpr,
    GATE: tl.constexpr,
    ADD: tl.constexpr,
):
    """Triton kernel that projects one token's vector by a weight matrix, with what precedes and follows the projection.

    It reads each weight once, so its time is that of reading the matrix. Grid: (outputs / BLOCK_OUT,).

    Args:
        out_ptr: [outputs], written; with ADD, the result is added to it.
        x_ptr: [inputs].
        codes_ptr, scales_ptr, minimums_ptr: the matrix, [outputs, inputs], in the format FORMAT of
            `quantised_kernels.py` with groups of GROUP inputs; with GATE, twice as many rows, the gate's before the
            others.
        bias_ptr: [outputs], or twice as many with GATE; not read without BIAS.
        norm_ptr, eps: weight, [inputs], and epsilon of the `RMSNorm` of x that NORM puts before the projection.
        BLOCK_OUT, BLOCK_IN: rows and columns of the weight matrix in one step of a program.
        STAGES: steps whose weights are loaded ahead.
        GATE: whether the result is `silu(gate) * up` of the two halves of the projection.
    """
    rows = tl.program_id(0) * BLOCK_OUT + tl.arange(0, BLOCK_OUT)
    is_row = rows < outputs
    sums = tl.zeros([BLOCK_OUT, BLOCK_IN], tl.float32)
    ups = tl.zeros([BLOCK_OUT, BLOCK_IN], tl.float32)
    squares = tl.zeros([1, BLOCK_IN], tl.float32)
    for first in tl.range(0, inputs, BLOCK_IN, num_stages=STAGES):
        columns = first + tl.arange(0, BLOCK_IN)[None, :]
        is_column = columns < inputs
        x = tl.load(x_ptr + columns, mask=is_column, other=0.0).to(tl.float32)
        if NORM:
            squares += x * x
            x *= tl.load(norm_ptr + columns, mask=is_column, other=0.0).to(tl.float32)
        sums += x * weight_tile(
            codes_ptr, scales_ptr, minimums_ptr, rows, outputs, first, inputs, FORMAT, GROUP, BLOCK_OUT, BLOCK_IN
        )
        if GATE:
            ups += x * weight_tile(
                codes_ptr,
                scales_ptr,
                minimums_ptr,
                rows + outputs,
                2 * outputs,
                first,
                inputs,
                FORMAT,
                GROUP,
                BLOCK_OUT,
                BLOCK_IN,
            )
    scale = 1.0
    if NORM:
        scale = tl.rsqrt(tl.sum(squares) / inputs + eps)
    result = tl.sum(sums, 1) * scale
    if BIAS:
        result += tl.load(bias_ptr + rows, mask=is_row, other=0.0).to(tl.float32)
    if GATE:
        up = tl.sum(ups, 1) * scale
        if BIAS:
            up += tl.load(bias_ptr + outputs + rows, mask=is_row, other=0.0).to(tl.float32)
        result = result * tl.sigmoid(result) * up
    if ADD:
        result += tl.load(out_ptr + rows, mask=is_row, other=0.0).to(tl.float32)
    tl.store(out_ptr + rows, result.to(out_ptr.dtype.element_ty), mask=is_row)
