"""Triton kernels of paged attention on CUDA: store keys and values, attend by blocks, combine a context's splits.

One kernel serves prefill, decode and mixed steps: a program takes a block of consecutive queries of one sequence, with
all query heads that share one key-value head, so keys and values are read once for all of them. The softmax is computed
online in base 2 (Milakov and Gimelshein 2018; Dao et al. 2022, FlashAttention). In decode with few sequences, the
context is split into a fixed number of parts (Dao et al. 2023, Flash-Decoding): the grid depends on the number of rows
only, never on a length, so a captured launch stays right as contexts grow.

An int8 cache has each head's key or value as bytes, followed by their float32 scale (`kv_cache.py`); the kernels get
its memory as int8 and, for the scales, as float32. Codes of keys are multiplied, and their scales are factors on the
scores; values are dequantised before they are multiplied.

Strides count elements; the last dimension is always dense.
"""

from __future__ import annotations

import triton
import triton.language as tl

LOG2_E = tl.constexpr(1.4426950408889634)


@triton.jit
def store_kernel(
    keys_ptr,
    values_ptr,
    key_ptr,
    value_ptr,
    slots_ptr,
    key_row,
    value_row,
    WIDTH: tl.constexpr,
    PADDED: tl.constexpr,
):
    """Triton kernel that copies a token's new key and value (all heads, WIDTH numbers each) to its KV cache slot.

    A row with a negative slot is skipped. Grid: (T,), one program per token of the step. `keys_ptr`, `values_ptr`: a
    layer's cache, [slots, WIDTH]. `PADDED`: the power of two above WIDTH.
    """
    row = tl.program_id(0).to(tl.int64)
    slot = tl.load(slots_ptr + row).to(tl.int64)
    if slot >= 0:
        columns = tl.arange(0, PADDED)
        inside = columns < WIDTH
        tl.store(
            keys_ptr + slot * WIDTH + columns, tl.load(key_ptr + row * key_row + columns, mask=inside), mask=inside
        )
        tl.store(
            values_ptr + slot * WIDTH + columns,
            tl.load(value_ptr + row * value_row + columns, mask=inside),
            mask=inside,
        )


@triton.jit
def store_quantised_kernel(
    keys_ptr,
    values_ptr,
    key_scales_ptr,
    value_scales_ptr,
    key_ptr,
    value_ptr,
    slots_ptr,
    key_row,
    value_row,
    HEAD_SIZE: tl.constexpr,
    PADDED_SIZE: tl.constexpr,
):
    """Triton kernel that rounds one head's new key and value to int8 and writes them to the token's KV cache slot.

    It computes `quantise` of `kv_cache.py`. A row with a negative slot is skipped. Grid: (T, Hkv). `keys_ptr`,
    `values_ptr`: a layer's int8 cache, [slots, Hkv, HEAD_SIZE + 4]; `key_scales_ptr`, `value_scales_ptr`: the same
    memory as float32. `key_ptr`, `value_ptr`: [T, Hkv, HEAD_SIZE], rows `key_row` and `value_row` apart.
    """
    row = tl.program_id(0).to(tl.int64)
    head = tl.program_id(1)
    slot = tl.load(slots_ptr + row).to(tl.int64)
    if slot >= 0:
        dims = tl.arange(0, PADDED_SIZE)
        in_head = dims < HEAD_SIZE
        to = (slot * tl.num_programs(1) + head) * (HEAD_SIZE + 4)
        key = tl.load(key_ptr + row * key_row + head * HEAD_SIZE + dims, mask=in_head, other=0.0)
        _store_quantised(keys_ptr + to, key_scales_ptr + (to + HEAD_SIZE) // 4, key.to(tl.float32), dims, in_head)
        value = tl.load(value_ptr + row * value_row + head * HEAD_SIZE + dims, mask=in_head, other=0.0)
        _store_quantised(values_ptr + to, value_scales_ptr + (to + HEAD_SIZE) // 4, value.to(tl.float32), dims, in_head)


@triton.jit
def _store_quantised(codes_ptr, scale_ptr, vector, dims, in_head):
    highest = tl.max(tl.abs(vector), 0)
    factor = tl.where(highest > 0.0, tl.div_rn(127.0, tl.where(highest > 0.0, highest, 1.0)), 0.0)
    codes = vector * factor + 12582912.0 - 12582912.0  # 1.5 * 2 ** 23: rounds to whole numbers, ties to even
    tl.store(codes_ptr + dims, codes.to(tl.int8), mask=in_head)
    tl.store(scale_ptr, tl.div_rn(highest, 127.0))


@triton.jit
def _find_sequence(starts_ptr, sequences, program, QUERIES: tl.constexpr):
    """Find a program's sequence by bisection: sequence s has the programs from start // QUERIES + s on."""
    low, high = 0, sequences
    while low < high:
        middle = (low + high) // 2
        if tl.load(starts_ptr + middle) // QUERIES + middle <= program:
            low = middle + 1
        else:
            high = middle
    return low - 1


@triton.jit(do_not_specialize=["sequences", "table_row"])  # these change from step to step
def attention_kernel(
    out_ptr,
    sums_ptr,
    maxima_ptr,
    query_ptr,
    keys_ptr,
    values_ptr,
    key_scales_ptr,
    value_scales_ptr,
    tables_ptr,
    starts_ptr,
    lengths_ptr,
    sinks_ptr,
    sequences,
    scale,
    query_row,
    table_row,
    slot_row,
    GROUP: tl.constexpr,
    HEAD_SIZE: tl.constexpr,
    PADDED_SIZE: tl.constexpr,
    VECTOR: tl.constexpr,
    QUANTISED: tl.constexpr,
    BLOCK_SIZE: tl.constexpr,
    WINDOW: tl.constexpr,
    SOFTCAP: tl.constexpr,
    SINKS: tl.constexpr,
    SINGLE: tl.constexpr,
    SPLITS: tl.constexpr,
    ROWS: tl.constexpr,
    TILE: tl.constexpr,
    PRODUCT: tl.constexpr,
):
    """Triton kernel that computes attention for one block of queries, one key-value head and one split of the context.

    Grid: (programs, key-value heads, SPLITS); programs is S if SINGLE, else T // (ROWS // GROUP) + S.

    Args:
        out_ptr: [T, Hq, SPLITS, HEAD_SIZE]: the mean of the values, in float32 if SPLITS > 1.
        sums_ptr, maxima_ptr: [T, Hq, SPLITS] float32, written if SPLITS > 1: of the weights; of the scores in base 2.
        query_ptr: [T, Hq, HEAD_SIZE], rows `query_row` apart.
        keys_ptr, values_ptr: a layer's cache, [slots, Hkv, VECTOR], slots `slot_row` apart.
        key_scales_ptr, value_scales_ptr: the same memory as float32, read if QUANTISED.
        tables_ptr, starts_ptr, lengths_ptr, sequences: as in `AttentionMetadata`; table rows `table_row` apart.
        sinks_ptr: [Hq] float32, if SINKS: as in `AttentionInputs`. The first split has them.
        scale: factor on the scores, times log2(e).
        GROUP: query heads to a key-value head.
        VECTOR, QUANTISED: elements of a head's key in the cache; whether it is int8.
        WINDOW: positions that a query attends to, 0: all.
        SOFTCAP: as in `AttentionInputs`, 0: scores are not capped.
        SINGLE: whether every sequence has one query.
        ROWS, TILE: queries times heads, and positions, of one matrix product.
        PRODUCT: the number format of matrix products.
    """
    QUERIES: tl.constexpr = ROWS // GROUP
    program = tl.program_id(0)
    kv_head = tl.program_id(1)
    split = tl.program_id(2)
    if SINGLE:
        sequence = program
        start = program
        count = 1
        first = 0
    else:
        sequence = _find_sequence(starts_ptr, sequences, program, QUERIES)
        start = tl.load(starts_ptr + sequence).to(tl.int32)
        count = tl.load(starts_ptr + sequence + 1).to(tl.int32) - start
        first = (program - (start // QUERIES + sequence)) * QUERIES
        if first >= count:
            return
    length = tl.load(lengths_ptr + sequence).to(tl.int32)

    lane = tl.arange(0, ROWS)
    token = first + lane // GROUP
    used = (lane < QUERIES * GROUP) & (token < count)
    heads = tl.num_programs(1) * GROUP
    head = kv_head * GROUP + lane % GROUP
    own = length - count + token
    dims = tl.arange(0, PADDED_SIZE)
    in_head = dims < HEAD_SIZE
    row = (start + token).to(tl.int64)
    query = tl.load(
        query_ptr + (row * query_row + head * HEAD_SIZE)[:, None] + dims[None, :],
        mask=used[:, None] & in_head[None, :],
        other=0.0,
    ).to(PRODUCT)

    low = 0
    if WINDOW > 0:
        low = tl.maximum(0, length - count + first - WINDOW + 1)
    high = tl.minimum(length, length - count + first + QUERIES)
    if SPLITS > 1:
        part = tl.cdiv(tl.cdiv(high - low, SPLITS), TILE) * TILE
        low += split * part
        high = tl.minimum(high, low + part)

    maximum = tl.full([ROWS], float("-inf"), tl.float32)
    total = tl.zeros([ROWS], tl.float32)
    if SINKS:
        maximum = tl.where(split == 0, tl.load(sinks_ptr + head) * LOG2_E, maximum)
        total = tl.where(split == 0, 1.0, total)
    mixed = tl.zeros([ROWS, PADDED_SIZE], tl.float32)
    for at in range(low, high, TILE):
        positions = at + tl.arange(0, TILE)
        inside = positions < high
        block = tl.load(
            tables_ptr + sequence.to(tl.int64) * table_row + positions // BLOCK_SIZE, mask=inside, other=0
        ).to(tl.int64)
        slots = (block * BLOCK_SIZE + positions % BLOCK_SIZE) * slot_row + kv_head * VECTOR
        # Nothing is read beyond the context: a stray NaN there would survive a weight of zero.
        key = tl.load(keys_ptr + slots[None, :] + dims[:, None], mask=inside[None, :] & in_head[:, None], other=0).to(
            PRODUCT
        )
        scores = tl.dot(query, key, input_precision="ieee") * scale
        if QUANTISED:
            at_scale = (slots + HEAD_SIZE) // 4
            scores *= tl.load(key_scales_ptr + at_scale, mask=inside, other=0.0)[None, :]
        if SOFTCAP > 0:  # the hyperbolic tangent of x is 1 - 2 / (e^2x + 1)
            cap = SOFTCAP * LOG2_E
            scores = cap - 2 * cap / (tl.exp2(scores * (2 / SOFTCAP)) + 1)
        seen = inside[None, :] & (positions[None, :] <= own[:, None])
        if WINDOW > 0:
            seen = seen & (positions[None, :] > own[:, None] - WINDOW)
        scores = tl.where(seen, scores, float("-inf"))
        higher = tl.maximum(maximum, tl.max(scores, 1))
        # The maximum of a row without a visible position so far is -inf, and -inf - -inf is NaN.
        pivot = tl.where(higher == float("-inf"), 0.0, higher)
        weights = tl.exp2(scores - pivot[:, None])
        shrink = tl.exp2(maximum - pivot)
        total = total * shrink + tl.sum(weights, 1)
        value = tl.load(values_ptr + slots[:, None] + dims[None, :], mask=inside[:, None] & in_head[None, :], other=0)
        if QUANTISED:
            value_scales = tl.load(value_scales_ptr + at_scale, mask=inside, other=0.0)
            value = (value.to(tl.float32) * value_scales[:, None]).to(query_ptr.dtype.element_ty)
        rounded = weights.to(value.dtype).to(PRODUCT)
        mixed = mixed * shrink[:, None] + tl.dot(rounded, value.to(PRODUCT), input_precision="ieee")
        maximum = higher

    cell = (row * heads + head) * SPLITS + split
    mean = mixed / tl.where(total > 0.0, total, 1.0)[:, None]
    tl.store(
        out_ptr + cell[:, None] * HEAD_SIZE + dims[None, :],
        mean.to(out_ptr.dtype.element_ty),
        mask=used[:, None] & in_head[None, :],
    )
    if SPLITS > 1:
        tl.store(sums_ptr + cell, total, mask=used)
        tl.store(maxima_ptr + cell, maximum, mask=used)


@triton.jit
def combine_kernel(
    out_ptr,
    means_ptr,
    sums_ptr,
    maxima_ptr,
    HEAD_SIZE: tl.constexpr,
    PADDED_SIZE: tl.constexpr,
    SPLITS: tl.constexpr,
):
    """Triton kernel that combines one query head's partial results over the splits of its context to its attention.

    The result is the mean of the splits' means, weighted by their softmax sums. Grid: (T * Hq,). `out_ptr`: [T * Hq,
    HEAD_SIZE], written; `means_ptr`, `sums_ptr`, `maxima_ptr`: written before by `attention_kernel`; SPLITS: a power of
    two.
    """
    cell = tl.program_id(0).to(tl.int64)
    parts = cell * SPLITS + tl.arange(0, SPLITS)
    dims = tl.arange(0, PADDED_SIZE)
    in_head = dims < HEAD_SIZE
    maxima = tl.load(maxima_ptr + parts)
    highest = tl.max(maxima, 0)
    pivot = tl.where(highest == float("-inf"), 0.0, highest)
    weights = tl.load(sums_ptr + parts) * tl.exp2(maxima - pivot)
    total = tl.sum(weights, 0)
    means = tl.load(means_ptr + parts[:, None] * HEAD_SIZE + dims[None, :], mask=in_head[None, :], other=0.0)
    joined = tl.sum(means * weights[:, None], 0) / tl.where(total > 0.0, total, 1.0)
    tl.store(out_ptr + cell * HEAD_SIZE + dims, joined.to(out_ptr.dtype.element_ty), mask=in_head)
