"""Fills a decoder that Triton kernels compute with its weights, matrix by matrix; quantised matrices stay quantised.

Importing this module loads Triton, so import it only where it is used.
"""

from __future__ import annotations

from typing import Literal

import torch
from torch import Tensor, nn

from inference_worker.engine.layers.decoder import Decoder
from inference_worker.engine.layers.linear import Linear, MergedLinear
from inference_worker.engine.layers.quantised_linear import QuantisedLinear
from inference_worker.engine.native.packing import GROUP, AnyValues, Int8Values, concatenate
from inference_worker.engine.weights.weights import Checkpoint

Kept = Literal["nothing", "own", "int8"]
"""Which matrices of linear layers are quantised: none, those of the checkpoint in its formats, or all as int8."""


def first_indivisible(model: Decoder) -> str | None:
    """Return the name of the first linear layer whose inputs are no whole groups, so that it can't be quantised."""
    linears = ((path, module) for path, module in model.named_modules() if isinstance(module, Linear))
    return next((path for path, linear in linears if linear.weight.shape[1] % GROUP), None)


def fill(model: Decoder, checkpoint: Checkpoint, device: torch.device, kept: Kept) -> str:
    """Read all weights of `model`, which may be on the meta device, from a checkpoint, and copy them to `device`.

    Linear layers with a quantised matrix become `QuantisedLinear`; embedding, output head and norms are dequantised.
    Returns the name of the narrowest format of its matrices: `int4`, `int8`, `fp8` or `none`.

    Raises:
        BadWeights: a file is damaged.
    """
    for path, module in list(model.named_modules()):
        if isinstance(module, Linear):
            filled = _filled(path, module, checkpoint, device, kept)
            model.set_submodule(path, filled)
        elif not isinstance(module, QuantisedLinear):  # a draft model of the first layers has made some
            for name, parameter in list(module.named_parameters(recurse=False)):
                setattr(module, name, _parameter(checkpoint.read(f"{path}.{name}"), device, parameter.dtype))
    model.rotary = model.rotary.to(device)
    formats = {module.format for module in model.modules() if isinstance(module, QuantisedLinear)}
    return next((name for name in ("int4", "int8", "fp8") if name in formats), "none")


def _filled(
    path: str, linear: Linear, checkpoint: Checkpoint, device: torch.device, kept: Kept
) -> Linear | QuantisedLinear:
    """Return the layer `linear`, called `path`, with its weights, or a quantised one in its place."""
    parent, dtype = path.rpartition(".")[0], linear.weight.dtype
    paths = [f"{parent}.{part}" for part in linear.parts] if isinstance(linear, MergedLinear) else [path]
    matrix = concatenate([_read(checkpoint, f"{each}.weight", kept) for each in paths])
    bias = None
    if linear.bias is not None:
        bias = torch.cat([checkpoint.read(f"{each}.bias") for each in paths]).to(dtype)
    if isinstance(matrix, Tensor):
        linear.weight = _parameter(matrix, device, dtype)
        linear.bias = None if bias is None else _parameter(bias, device, dtype)
        return linear
    return QuantisedLinear(matrix, bias, device)


def _read(checkpoint: Checkpoint, name: str, kept: Kept) -> AnyValues:
    own = None if kept == "nothing" else checkpoint.quantised(name)
    if kept == "int8" and not isinstance(own, Int8Values):
        return Int8Values.of(checkpoint.read(name))
    return checkpoint.read(name) if own is None else own


def _parameter(tensor: Tensor, device: torch.device, dtype: torch.dtype) -> nn.Parameter:
    return nn.Parameter(tensor.to(device, dtype), requires_grad=False)
