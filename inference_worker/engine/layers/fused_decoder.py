"""Runs the decoder of `decoder.py` on CUDA with fused Triton kernels: the same parameters, fewer kernel launches.

On a GPU the number of launches bounds a small model's decode step. The result is that of `decoder.py`.
"""

from __future__ import annotations

import torch
import triton
from torch import Tensor
from torch.nn import functional

from inference_worker.engine.attention_backend import AttentionInputs, StepAttention
from inference_worker.engine.layers.attention import SelfAttention
from inference_worker.engine.layers.decoder import Decoder, DecoderLayer
from inference_worker.engine.layers.fused_kernels import (
    add_norm_kernel,
    gate_kernel,
    position_kernel,
    row_projection_kernel,
)
from inference_worker.engine.layers.linear import Linear
from inference_worker.engine.layers.mlp import GatedMLP
from inference_worker.engine.layers.quantised_linear import QuantisedLinear, kernel_matrix
from inference_worker.engine.layers.rms_norm import RMSNorm
from inference_worker.engine.layers.rotary import Rotation

GATE_BLOCK = 1024

ROW_TILING = {"BLOCK_OUT": 4, "BLOCK_IN": 512, "STAGES": 4, "num_warps": 4}
"""Launch parameters of `row_projection_kernel`, chosen by measurements of many on an H100, with the matrices of three
shapes of models."""


class FusedDecoder:
    """A `CausalLM` (`causal_lm.py`) on CUDA that runs a loaded `Decoder` with fused Triton kernels."""

    def __init__(self, decoder: Decoder) -> None:
        self.shape = decoder.shape
        self._decoder = decoder
        self._layers = [layer for layer in decoder.model.layers if isinstance(layer, DecoderLayer)]
        self._gated_by_silu = all(layer.mlp.activation is functional.silu for layer in self._layers)
        # The norm that follows each layer; it is fused with the addition at the layer's end.
        self._following = [*(layer.input_layernorm for layer in self._layers[1:]), decoder.model.norm]

    def forward(self, token_ids: Tensor, positions: Tensor, attention: StepAttention) -> Tensor:
        """Compute the final hidden states, [T, hidden], of T packed tokens by their ids and positions ([T] each).

        The tokens' keys and values are written to the KV cache of `attention`.
        """
        rotation = self._decoder.rotary.at(positions, self._decoder.dtype)
        stream = self._decoder.model.embed_tokens(token_ids)
        if len(token_ids) == 1 and self._gated_by_silu:
            return self._forward_row(stream, rotation, attention)
        normed: Tensor = self._layers[0].input_layernorm(stream)
        for layer, following in zip(self._layers, self._following, strict=True):
            mixed = _attend(layer.self_attn, normed, rotation, attention)
            normed = add_norm(stream, mixed, layer.post_attention_layernorm)
            normed = add_norm(stream, layer.mlp.down_proj(gated_activation(layer.mlp, normed)), following)
        return normed

    def _forward_row(self, stream: Tensor, rotation: Rotation, attention: StepAttention) -> Tensor:
        """Compute `forward` of one token from its embedding, [1, hidden], with four projection kernels per layer."""
        for layer in self._layers:
            heads = project_row(stream, layer.self_attn.qkv_proj, norm=layer.input_layernorm)
            mixed = _mix(layer.self_attn, heads, rotation, attention)
            project_row(mixed, layer.self_attn.o_proj, add_to=stream)
            gated = project_row(stream, layer.mlp.gate_up_proj, norm=layer.post_attention_layernorm, gate=True)
            project_row(gated, layer.mlp.down_proj, add_to=stream)
        out: Tensor = self._decoder.model.norm(stream)
        return out

    def logits(self, hidden: Tensor) -> Tensor:
        """Compute the next token's logits from R final hidden states: [R, hidden] to [R, vocabulary size] float32."""
        return self._decoder.logits(hidden)


def _attend(module: SelfAttention, x: Tensor, rotation: Rotation, attention: StepAttention) -> Tensor:
    """Compute `SelfAttention.forward` with fused normalisation and rotation."""
    out: Tensor = module.o_proj(_mix(module, module.qkv_proj(x), rotation, attention))
    return out


def _mix(module: SelfAttention, projected: Tensor, rotation: Rotation, attention: StepAttention) -> Tensor:
    """Return the attention of T tokens, [T, query heads * head size], by their queries, keys and values."""
    config = module.config
    heads = projected.view(projected.shape[0], -1, config.head_size)
    normalise_and_rotate(module, heads, rotation)
    query, key, value = torch.split(heads, [config.query_heads, config.kv_heads, config.kv_heads], dim=1)
    mixed = attention(
        AttentionInputs(module.layer, query, key, value, config.head_size**-0.5, module.pattern.sliding_window)
    )
    return mixed.reshape(len(heads), -1)


def add_norm(stream: Tensor, delta: Tensor, norm: RMSNorm) -> Tensor:
    """Add `delta` to the residual `stream` (both [T, hidden]) in place; return the sum normalised by the layer `norm`.

    One Triton kernel does both.
    """
    out = torch.empty_like(stream)
    rows, width = stream.shape
    padded = triton.next_power_of_2(width)
    add_norm_kernel[(rows,)](
        out, stream, delta, norm.weight, norm.eps, WIDTH=width, PADDED=padded, num_warps=4 if padded <= 4096 else 8
    )
    return out


def normalise_and_rotate(module: SelfAttention, heads: Tensor, rotation: Rotation) -> None:
    """Normalise and rotate query and key heads in place, as the attention layer `module` does, by one Triton kernel.

    Args:
        heads: [T, heads, size], the queries before the keys.
        rotation: cosines and sines of the tokens' positions.
    """
    config, half = module.config, module.config.head_size // 2
    norm = config.qk_norm_eps is not None
    if not norm and not module.pattern.rotary:
        return
    count = config.query_heads + config.kv_heads
    position_kernel[(len(heads),)](
        heads,
        rotation.cos,
        rotation.sin,
        module.q_norm.weight if norm else heads,
        module.k_norm.weight if norm else heads,
        heads.stride(0),
        config.qk_norm_eps or 0.0,
        QUERY_HEADS=config.query_heads,
        HEADS=count,
        PADDED_HEADS=triton.next_power_of_2(count),
        HALF=half,
        PADDED_HALF=triton.next_power_of_2(half),
        NORM=norm,
        ROTARY=module.pattern.rotary,
    )


def gated_activation(mlp: GatedMLP, x: Tensor) -> Tensor:
    """Compute `act(gate(x)) * up(x)` with the projections and the activation of `mlp`: [T, hidden] to [T, inner].

    A Triton kernel does the activation and the product.
    """
    both: Tensor = mlp.gate_up_proj(x)
    if mlp.activation is not functional.silu:
        gate, up = both.chunk(2, dim=-1)
        out: Tensor = mlp.activation(gate) * up
        return out
    rows, inner = both.shape[0], both.shape[1] // 2
    out = both.new_empty((rows, inner))
    gate_kernel[(rows, triton.cdiv(inner, GATE_BLOCK))](out, both, inner, BLOCK=GATE_BLOCK)
    return out


def project_row(
    x: Tensor,
    linear: Linear | QuantisedLinear,
    *,
    norm: RMSNorm | None = None,
    gate: bool = False,
    add_to: Tensor | None = None,
) -> Tensor:
    """Project one token's vector, [1, in], by a layer's matrix in one Triton kernel, bound by reading the matrix.

    Args:
        norm: the normalisation of `x` before the projection; None: `x` is projected as it is.
        gate: return `silu(gate) * up` of the two halves of the projection.
        add_to: [1, out], the tensor to add the projection to and to return; None: return a new tensor.
    """
    matrix = kernel_matrix(linear)
    outputs = matrix.outputs // (2 if gate else 1)
    out = x.new_empty((1, outputs)) if add_to is None else add_to
    row_projection_kernel[(triton.cdiv(outputs, ROW_TILING["BLOCK_OUT"]),)](
        out,
        x,
        matrix.codes,
        matrix.scales,
        matrix.minimums,
        matrix.codes if linear.bias is None else linear.bias,
        matrix.codes if norm is None else norm.weight,
        matrix.inputs,
        outputs,
        0.0 if norm is None else norm.eps,
        FORMAT=matrix.format,
        GROUP=matrix.group,
        BIAS=linear.bias is not None,
        NORM=norm is not None,
        GATE=gate,
        ADD=add_to is not None,
        **ROW_TILING,
    )
    return out
