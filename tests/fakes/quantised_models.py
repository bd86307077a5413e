"""Writes tiny checkpoints in the layouts of compressed-tensors, GPTQ and AWQ, by their published definitions.

Each layout's `write_...` returns the tensors of one module, and the float32 matrix that they stand for;
`save_quantised` writes a folder with all matrices of a model's layers in that layout.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
from safetensors.torch import load_file, save_file
from torch import Tensor
from transformers import PreTrainedModel

from tests.fakes.tiny_models import save_tiny

Written = tuple[dict[str, Tensor], Tensor]
WIDE = {"hidden_size": 64, "intermediate_size": 96, "head_dim": 16}


def drawn(weight: Tensor, bits: int, group: int) -> tuple[Tensor, Tensor, Tensor]:
    """Codes [out, in], zeros and scales [out, groups] of a matrix, rounded to the nearest; zeros are all above 0."""
    groups = weight.unflatten(1, (-1, group))
    low, high = groups.amin(-1).clamp(max=-1e-3), groups.amax(-1).clamp(min=1e-3)
    scales = ((high - low) / (2**bits - 1)).half().float()
    zeros = (-low / scales).round().clamp(1, 2**bits - 1)
    codes = (groups / scales[..., None] + zeros[..., None]).round().clamp(0, 2**bits - 1)
    return codes.flatten(1).int(), zeros.int(), scales


def packed(codes: Tensor, bits: int, order: tuple[int, ...] | None = None) -> Tensor:
    """Words of the codes of the last dimension; `order`: which of a word's codes comes first, second, ..."""
    per_word = 32 // bits
    codes = torch.nn.functional.pad(codes, (0, -codes.shape[-1] % per_word))
    words = codes.unflatten(-1, (-1, per_word)).long()[..., list(order or range(per_word))]
    total = (words << bits * torch.arange(per_word)).sum(-1)
    return (total - (total >= 2**31).long() * 2**32).int().contiguous()


def dense(codes: Tensor, zeros: Tensor | int, scales: Tensor, group_of: Tensor) -> Tensor:
    shift = zeros if isinstance(zeros, int) else zeros[:, group_of]
    return (codes.float() - shift) * scales[:, group_of]


def write_gptq(
    weight: Tensor, *, bits: int = 4, group: int = 32, version: int = 1, order: Tensor | None = None
) -> Written:
    """`order`: inputs in the order in which they were quantised (`desc_act`), group by group."""
    inputs = torch.arange(weight.shape[1]) if order is None else order
    codes, zeros, scales = drawn(weight[:, inputs], bits, group)
    group_of = torch.empty(len(inputs), dtype=torch.int64)
    group_of[inputs] = torch.arange(len(inputs)) // group
    codes = codes[:, inputs.argsort()]
    tensors = {
        "qweight": packed(codes, bits).T.contiguous(),
        "qzeros": packed(zeros.T - (2 - version), bits),
        "scales": scales.T.half().contiguous(),
        "g_idx": group_of.int(),
    }
    return tensors, dense(codes, zeros, scales, group_of)


def write_awq(weight: Tensor, *, group: int = 32) -> Written:
    codes, zeros, scales = drawn(weight, 4, group)
    order = (0, 2, 4, 6, 1, 3, 5, 7)
    tensors = {
        "qweight": packed(codes.T, 4, order),
        "qzeros": packed(zeros.T, 4, order),
        "scales": scales.T.half().contiguous(),
    }
    return tensors, dense(codes, zeros, scales, torch.arange(weight.shape[1]) // group)


def write_packed(weight: Tensor, *, bits: int = 4, group: int = 32, symmetric: bool = True) -> Written:
    codes, zeros, scales = drawn(weight, bits, group)
    if symmetric:
        zeros = torch.full_like(zeros, 2 ** (bits - 1))
    tensors = {
        "weight_packed": packed(codes, bits),
        "weight_shape": torch.tensor(weight.shape),
        "weight_scale": scales.bfloat16(),
    }
    if not symmetric:
        tensors["weight_zero_point"] = packed(zeros.T, bits).T.contiguous()
    return tensors, dense(codes, zeros, scales.bfloat16().float(), torch.arange(weight.shape[1]) // group)


def write_int8(weight: Tensor, *, symmetric: bool = True) -> Written:
    codes, zeros, scales = drawn(weight, 8, weight.shape[1])
    tensors = {"weight": (codes - 128).to(torch.int8), "weight_scale": scales.bfloat16()}
    if symmetric:
        return tensors, (codes - 128) * scales.bfloat16().float()
    tensors["weight_zero_point"] = (zeros - 128).to(torch.int8)
    return tensors, (codes - zeros) * scales.bfloat16().float()


def write_fp8(weight: Tensor, *, block: tuple[int, int] | None = None, scale: str = "weight_scale") -> Written:
    """`block`: rows and columns with one scale; None: one scale for the whole matrix."""
    rows, columns = block or tuple(weight.shape)
    high, wide = -(-weight.shape[0] // rows), -(-weight.shape[1] // columns)
    full = torch.nn.functional.pad(weight, (0, wide * columns - weight.shape[1], 0, high * rows - weight.shape[0]))
    scales = full.view(high, rows, wide, columns).abs().amax((1, 3)) / 448
    repeated = scales.repeat_interleave(rows, 0).repeat_interleave(columns, 1)[: weight.shape[0], : weight.shape[1]]
    codes = (weight / repeated).to(torch.float8_e4m3fn)
    return {"weight": codes, scale: scales if block else scales.view(1)}, codes.float() * repeated


def save_quantised(
    folder: Path, config: dict[str, Any], write: Callable[..., Written], *, model_type: str = "llama", **changes: Any
) -> PreTrainedModel:
    """Save a tiny model with the matrices of its layers quantised by `write`; returns the dequantised model."""
    theirs = save_tiny(folder, model_type, **{**WIDE, **changes})
    stored = load_file(folder / "model.safetensors")
    values = theirs.state_dict()
    for name in [name for name in stored if "layers" in name and stored[name].ndim == 2]:
        parts, values[name] = write(stored.pop(name))
        stored.update((f"{name.removesuffix('weight')}{part}", value) for part, value in parts.items())
    save_file(stored, folder / "model.safetensors", {"format": "pt"})
    theirs.load_state_dict(values)
    path = folder / "config.json"
    path.write_text(json.dumps(json.loads(path.read_text()) | {"quantization_config": config}))
    return theirs


def group_config(layout: str, **weights: Any) -> dict[str, Any]:
    """A compressed-tensors configuration with one group of modules."""
    scheme = {"num_bits": 4, "type": "int", "strategy": "group", "group_size": 32, "symmetric": True, **weights}
    return {
        "quant_method": "compressed-tensors",
        "format": layout,
        "quantization_status": "compressed",
        "config_groups": {"group_0": {"targets": ["Linear"], "weights": scheme, "input_activations": None}},
        "ignore": ["lm_head"],
    }
