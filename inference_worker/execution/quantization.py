"""Gives a loaded model quantised weights, layer by layer; what can't be packed stays dense.

Only linear layers of our own definitions are packed: not the embedding, so not an output head tied to it. Knows modules
and where int4 values come from, not families.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

import torch
from torch import nn

from inference_worker.errors import UnsupportedModel
from inference_worker.execution.gguf_file import GGUFFile
from inference_worker.layers.decoder import Decoder
from inference_worker.layers.linear import Linear, MergedLinear
from inference_worker.layers.quantized_linear import (
    Int4Values,
    Int4Weight,
    Int8Weight,
    PackedWeight,
    QuantizedLinear,
    packable,
)
from inference_worker.model_source import ModelSource
from inference_worker.models.base import CausalLM

Pack = Callable[[str, Linear], PackedWeight | None]
"""From a layer's path and the layer to its packed weight; None: it stays dense."""


def quantize(model: CausalLM, source: ModelSource, scheme: str, device: torch.device) -> str:
    """Pack the layers of `model`, loaded from `source`; returns the scheme in force.

    Raises:
        UnsupportedModel: a scheme that this model or device can't have; `auto` becomes `none` then.
    """
    if scheme == "none":
        return "none"
    possible = isinstance(model, Decoder) and device.type == "cpu"
    int4 = dict(GGUFFile(source.path).int4_values()) if possible and scheme != "int8" and source.kind == "gguf" else {}
    if scheme == "auto":
        scheme = "int4" if int4 else "none"
    if scheme == "none":
        return scheme
    if not isinstance(model, Decoder) or not possible:
        raise UnsupportedModel(f"quantization {scheme}: only on the CPU, and for the families of our own")
    if scheme == "int4" and not int4:
        raise UnsupportedModel("quantization int4 keeps the weights of a GGUF in Q4_0 or Q4_1; this is none")
    replace_linears(model, _int8 if scheme == "int8" else lambda path, layer: _int4(path, layer, int4))
    return scheme


def replace_linears(model: nn.Module, pack: Pack) -> None:
    """Put a `QuantizedLinear` in the place of each linear layer that `pack` packs."""
    places = [
        (parent, name, f"{path}.{name}", child)
        for path, parent in model.named_modules()
        for name, child in parent.named_children()
        if isinstance(child, Linear)
    ]
    for parent, name, path, child in places:
        if packable(child.weight) and (packed := pack(path, child)) is not None:
            setattr(parent, name, QuantizedLinear(child, packed))


def _int8(path: str, layer: Linear) -> PackedWeight:
    return Int8Weight(layer.weight)


def _int4(path: str, layer: Linear, values: Mapping[str, Int4Values]) -> PackedWeight | None:
    """The values of the layer, or of all parts of a merged one one below the other."""
    parent = path.rpartition(".")[0]
    paths = [f"{parent}.{part}" for part in layer.parts] if isinstance(layer, MergedLinear) else [path]
    found = [values[f"{path}.weight"] for path in paths if f"{path}.weight" in values]
    return Int4Weight(Int4Values.stacked(found)) if len(found) == len(paths) else None
