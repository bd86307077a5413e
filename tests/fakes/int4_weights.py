"""Int4 values of a tiny model's matrices, rounded as GGUF's Q4_1 rounds."""

from __future__ import annotations

from collections.abc import Iterator

import torch

from inference_worker.engine.layers.decoder import Decoder
from inference_worker.engine.layers.linear import Linear, MergedLinear
from inference_worker.engine.native.packing import GROUP, Int4Values


def matrices(model: Decoder) -> Iterator[tuple[str, torch.Tensor]]:
    """Yield the matrices of the model's layers, by their published names."""
    for path, layer in model.model.layers.named_modules(prefix="model.layers"):
        if isinstance(layer, MergedLinear):
            parent = path.rpartition(".")[0]
            yield from ((f"{parent}.{part}", weight) for part, weight in layer.views() if weight.ndim == 2)
        elif isinstance(layer, Linear):
            yield f"{path}.weight", layer.weight


def rounded(weight: torch.Tensor) -> Int4Values:
    """Return the nearest int4 values of an [out, in] matrix."""
    groups = weight.view(weight.shape[0], -1, GROUP)
    minimums = groups.amin(-1).half().float()
    scales = ((groups.amax(-1) - minimums) / 15).half().float()
    codes = ((groups - minimums[..., None]) / scales.clamp_min(1e-12)[..., None]).round().clamp(0, 15).to(torch.uint8)
    return Int4Values(codes.flatten(1), scales, minimums)
