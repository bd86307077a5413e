"""Computes rotary position embeddings (Su et al., "RoFormer", 2021), halves layout, with static context scaling.

The frequencies of linear, llama3 and yarn scaling come from `transformers`, whose checkpoints define them. Scalings
that depend on the longest sequence of a batch (dynamic, longrope) are refused, because one user's prompt would change
another user's answer.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor
from transformers import PreTrainedConfig
from transformers.modeling_rope_utils import ROPE_INIT_FUNCTIONS

from inference_worker.errors import UnsupportedModel

STATIC = ("default", "linear", "llama3", "yarn")


@dataclass(frozen=True)
class Rotation:
    """The cosines and sines of a step's positions, each [T, 1, head size / 2]."""

    cos: Tensor
    sin: Tensor

    def apply(self, x: Tensor) -> Tensor:
        """Return `x` ([T, heads, head size], queries or keys) rotated by the positions of its T tokens.

        Dimension i of a head pairs with dimension i + head size / 2.
        """
        first, second = x.chunk(2, dim=-1)
        return torch.cat((first * self.cos - second * self.sin, second * self.cos + first * self.sin), dim=-1)


@dataclass(frozen=True)
class Rotary:
    """Rotary frequencies, [head size / 2] float32, and a `magnitude` that scales cosine and sine (yarn)."""

    frequencies: Tensor
    magnitude: float = 1.0

    def at(self, positions: Tensor, dtype: torch.dtype) -> Rotation:
        """Return the rotation (cosines and sines as `dtype`) for the [T] positions of a step's tokens.

        Angles are computed in float32.
        """
        angles = positions[:, None, None].float() * self.frequencies
        return Rotation((angles.cos() * self.magnitude).to(dtype), (angles.sin() * self.magnitude).to(dtype))

    def to(self, device: torch.device) -> Rotary:
        """Return a copy of these rotary frequencies on the torch device `device`."""
        return Rotary(self.frequencies.to(device), self.magnitude)

    def divided_by(self, factors: Tensor) -> Rotary:
        """Return a copy of these rotary frequencies, each divided by its factor in `factors`, [head size / 2].

        A GGUF file stores the scaling of llama3 as such factors.
        """
        return Rotary(self.frequencies / factors, self.magnitude)


def rotary_from_config(config: PreTrainedConfig, head_size: int) -> Rotary:
    """Return the rotary frequencies for heads of `head_size` that a model configuration's `rope_parameters` describe.

    Raises:
        UnsupportedModel: the scaling is not static, or only a part of the head is rotated.
    """
    kind = config.rope_parameters.get("rope_type", "default")
    if kind not in STATIC:
        raise UnsupportedModel(f"rotary scaling {kind!r}: we serve {', '.join(STATIC)}")
    if kind == "default":
        exponents = torch.arange(0, head_size, 2, dtype=torch.float32) / head_size
        return Rotary(1.0 / (config.rope_parameters["rope_theta"] ** exponents))
    frequencies, magnitude = ROPE_INIT_FUNCTIONS[kind](config, torch.device("cpu"))
    if frequencies.numel() * 2 != head_size:
        raise UnsupportedModel(f"rotation of {frequencies.numel() * 2} of {head_size} dimensions of a head")
    return Rotary(frequencies, float(magnitude))


def max_context_length(config: PreTrainedConfig) -> int:
    """Return the longest context in tokens that a model configuration allows, rotary scaling included.

    It is derived as in vLLM. With longrope it is the original context: beyond it `transformers` changes the frequencies
    of a whole batch.
    """
    longest = int(config.max_position_embeddings)
    rope = getattr(config, "rope_parameters", None) or {}
    kind, factor = rope.get("rope_type", "default"), float(rope.get("factor") or 1.0)
    if kind == "longrope":
        return min(longest, int(rope.get("original_max_position_embeddings") or longest))
    if kind == "yarn":
        return max(longest, int((rope.get("original_max_position_embeddings") or longest) * factor))
    return int(longest * factor) if kind == "linear" else longest
