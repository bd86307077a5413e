"""Compiles the Triton kernels for a GPU, without one: run by `test_kernels_compile.py` in a process of its own.

Prints the bytes of machine code of each as JSON. Triton's compiler and ptxas need no device.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Mapping
from typing import Any

import torch
import triton
import triton.language as tl
from triton.backends.compiler import GPUTarget
from triton.compiler import ASTSource

from inference_worker.engine.attention import triton_kernels as kernels
from inference_worker.engine.attention.triton_attention import tiling
from inference_worker.engine.layers.fused_decoder import ROW_TILING
from inference_worker.engine.layers.fused_kernels import (
    add_norm_kernel,
    gate_kernel,
    position_kernel,
    row_projection_kernel,
)
from inference_worker.engine.sampling.uniform_kernel import uniform_kernel


def compile_kernel(
    kernel: Any, short: set[str], constants: Mapping[str, object], capability: int, **options: int
) -> int:
    """Return the bytes of machine code. Pointers of `short` are to bfloat16, of integers to int64, else float32."""
    integers = {f"{name}_ptr" for name in ("slots", "tables", "starts", "lengths", "seeds", "choices", "positions")}
    signature = {}
    for name in kernel.arg_names:
        if name.isupper():
            signature[name] = "constexpr"
        elif name.endswith("_ptr"):
            signature[name] = "*bf16" if name in short else "*i64" if name in integers else "*fp32"
        else:
            signature[name] = "fp32" if name in {"scale", "eps"} else "i32"
    source = ASTSource(kernel, signature, constants)
    compiled = triton.compile(source, target=GPUTarget("cuda", capability, 32), options=options)
    return len(compiled.asm["cubin"])


def attend(capability: int, *, single: bool, capped: bool = False, sinks: bool = False) -> int:
    launch = tiling(4, 128, torch.bfloat16.itemsize, single)
    splits = 8 if single else 1
    constants = {
        "GROUP": 4,
        "HEAD_SIZE": 128,
        "PADDED_SIZE": 128,
        "BLOCK_SIZE": 16,
        "WINDOW": 0,
        "SOFTCAP": 50.0 if capped else 0.0,
        "SINKS": sinks,
        "SINGLE": single,
        "SPLITS": splits,
        "ROWS": launch.rows,
        "TILE": launch.tile,
        "PRODUCT": tl.bfloat16,
    }
    short = {"query_ptr", "keys_ptr", "values_ptr"} | ({"out_ptr"} if splits == 1 else set())
    options = {"num_warps": launch.warps, "num_stages": launch.stages}
    return compile_kernel(kernels.attention_kernel, short, constants, capability, **options)


def project(capability: int, **flags: bool) -> int:
    wanted = {name: flags.get(name.lower(), False) for name in ("BIAS", "NORM", "GATE", "ADD")}
    tile = {name: value for name, value in ROW_TILING.items() if name.isupper()}
    kernel, warps = row_projection_kernel, ROW_TILING["num_warps"]
    return compile_kernel(kernel, short(kernel), {**tile, **wanted}, capability, num_warps=warps)


def short(kernel: Any) -> set[str]:
    """Return the names of all pointers of a kernel."""
    return {name for name in kernel.arg_names if name.endswith("_ptr")}


def main(capability: int) -> None:
    states = {"keys_ptr", "values_ptr", "key_ptr", "value_ptr"}
    parts = {"HEAD_SIZE": 128, "PADDED_SIZE": 128, "SPLITS": 8}
    heads = {"QUERY_HEADS": 9, "HEADS": 12, "PADDED_HEADS": 16, "HALF": 32, "PADDED_HALF": 32}
    sizes = {
        "store": compile_kernel(kernels.store_kernel, states, {"WIDTH": 192, "PADDED": 256}, capability),
        "attend single": attend(capability, single=True),
        "attend blocks": attend(capability, single=False),
        "attend capped": attend(capability, single=False, capped=True),
        "attend with sinks": attend(capability, single=True, sinks=True),
        "combine": compile_kernel(kernels.combine_kernel, {"out_ptr"}, parts, capability, num_warps=1),
        "add norm": compile_kernel(add_norm_kernel, short(add_norm_kernel), {"WIDTH": 576, "PADDED": 1024}, capability),
        "gate": compile_kernel(gate_kernel, short(gate_kernel), {"BLOCK": 1024}, capability),
        "project normed": project(capability, norm=True, gate=True),
        "project added": project(capability, bias=True, add=True),
        "uniform": compile_kernel(uniform_kernel, set(), {"ROWS": 128}, capability),
    }
    for norm in (True, False):
        constants = {**heads, "NORM": norm, "ROTARY": True}
        sizes[f"position {norm}"] = compile_kernel(position_kernel, short(position_kernel), constants, capability)
    print(json.dumps(sizes))


if __name__ == "__main__":
    main(int(sys.argv[1]))
