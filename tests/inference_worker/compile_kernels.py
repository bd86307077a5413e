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
from inference_worker.engine.layers.quantised_kernels import product_kernel
from inference_worker.engine.layers.quantised_linear import tiling as product_tiling
from inference_worker.engine.sampling.uniform_kernel import uniform_kernel

SHARED_MEMORY = {80: 163 * 1024, 90: 227 * 1024}
"""Bytes of shared memory that a program can have, by compute capability."""

CODES = {"float": "*bf16", "int8": "*i8", "int4": "*u8", "fp8": "*u8"}
"""Types of the pointers to the codes of matrices, by format."""


def compile_kernel(
    kernel: Any,
    short: set[str],
    constants: Mapping[str, object],
    capability: int,
    types: Mapping[str, str] | None = None,
    **options: int,
) -> int:
    """Return the bytes of machine code.

    Pointers are to what `types` says, or to bfloat16 if they are in `short`, to int64 if they are of integers, else to
    float32.
    """
    integers = {f"{name}_ptr" for name in ("slots", "tables", "starts", "lengths", "seeds", "choices", "positions")}
    signature = {}
    for name in kernel.arg_names:
        if name.isupper():
            signature[name] = "constexpr"
        elif name.endswith("_ptr"):
            default = "*bf16" if name in short else "*i64" if name in integers else "*fp32"
            signature[name] = (types or {}).get(name, default)
        else:
            signature[name] = "fp32" if name in {"scale", "eps"} else "i32"
    source = ASTSource(kernel, signature, constants)
    compiled = triton.compile(source, target=GPUTarget("cuda", capability, 32), options=options)
    if compiled.metadata.shared > SHARED_MEMORY[capability]:
        raise RuntimeError(f"{kernel} needs {compiled.metadata.shared} bytes of shared memory")
    return len(compiled.asm["cubin"])


def attend(capability: int, *, single: bool, capped: bool = False, sinks: bool = False, quantised: bool = False) -> int:
    launch = tiling(4, 128, torch.bfloat16.itemsize, single)
    splits = 8 if single else 1
    constants = {
        "GROUP": 4,
        "HEAD_SIZE": 128,
        "PADDED_SIZE": 128,
        "VECTOR": 132 if quantised else 128,
        "QUANTISED": quantised,
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
    types = {"keys_ptr": "*i8", "values_ptr": "*i8"} if quantised else {}
    return compile_kernel(kernels.attention_kernel, short, constants, capability, types, **options)


def pointers(form: str) -> dict[str, str]:
    """Return the types of the pointers to a matrix."""
    scales = "*fp32" if form == "fp8" else "*fp16"
    return {"codes_ptr": CODES[form], "scales_ptr": scales, "minimums_ptr": scales if form == "int4" else CODES[form]}


def multiply(capability: int, form: str, rows: int, group: int) -> int:
    launch = product_tiling(rows, torch.bfloat16.itemsize)
    constants = {
        "BIAS": True,
        "FORMAT": form,
        "GROUP": group,
        "BLOCK_ROWS": launch.rows,
        "BLOCK_OUT": launch.outputs,
        "BLOCK_IN": launch.inputs,
        "STAGES": launch.stages,
        "PRODUCT": tl.bfloat16,
    }
    kernel = product_kernel
    return compile_kernel(kernel, short(kernel), constants, capability, pointers(form), num_warps=launch.warps)


def project(capability: int, form: str = "float", **flags: bool) -> int:
    wanted = {name: flags.get(name.lower(), False) for name in ("BIAS", "NORM", "GATE", "ADD")}
    tile = {name: value for name, value in ROW_TILING.items() if name.isupper()}
    kernel, warps = row_projection_kernel, ROW_TILING["num_warps"]
    constants = {**tile, **wanted, "FORMAT": form, "GROUP": 32}
    return compile_kernel(kernel, short(kernel), constants, capability, pointers(form), num_warps=warps)


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
        "store int8": compile_kernel(
            kernels.store_quantised_kernel,
            {"key_ptr", "value_ptr"},
            {"HEAD_SIZE": 128, "PADDED_SIZE": 128},
            capability,
            {"keys_ptr": "*i8", "values_ptr": "*i8"},
        ),
        "attend single int8": attend(capability, single=True, quantised=True),
        "attend blocks int8": attend(capability, single=False, quantised=True),
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
    for form in ("int8", "int4", "fp8"):
        sizes[f"project {form}"] = project(capability, form, norm=True, gate=True)
        for rows in (16, 64, 512):
            for group in (32, 128):
                sizes[f"multiply {form} {rows} {group}"] = multiply(capability, form, rows, group)
    print(json.dumps(sizes))


if __name__ == "__main__":
    main(int(sys.argv[1]))
