"""Runs a decoder of the Llama family on the compiled CPU kernels: one call for all layers, with repacked weights.

It computes the same as `layers/decoder.py`, which remains the readable definition, the fallback and the reference in
tests. Hidden states are float32 in any weight format.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import partial

import torch
from torch import Tensor

from inference_worker.engine.attention_backend import StepAttention
from inference_worker.engine.kv_cache import KVCache
from inference_worker.engine.layers.decoder import Decoder, DecoderConfig, DecoderLayer
from inference_worker.engine.layers.linear import Linear, MergedLinear
from inference_worker.engine.layers.rms_norm import RMSNorm
from inference_worker.engine.native.library import (
    HEAD_STEP,
    AttentionBits,
    CacheStruct,
    HeadsStruct,
    Kernels,
    LayerStruct,
    LinearStruct,
    ModelStruct,
    NormStruct,
)
from inference_worker.engine.native.packing import (
    GROUP,
    Int8Values,
    PackedWeight,
    Values,
    concatenate,
    interleave,
    interleave_rows,
    pack,
)
from inference_worker.engine.native.step_interrupt import StepInterrupt
from inference_worker.engine.native.weight_arena import WeightArena, WeightStore
from inference_worker.errors import NativeUnavailable
from inference_worker.settings import ActivationBits

Read = Callable[[str], Values]
"""Returns a weight of a model by its Hugging Face name."""


def check_supported(config: DecoderConfig) -> None:
    """Check that the compiled CPU kernels support the sizes and the activation of a decoder with this configuration.

    Raises:
        NativeUnavailable: the kernels don't support the model, which must run in PyTorch instead.
    """
    attention = config.attention
    sizes = {
        "hidden size": (attention.hidden_size, GROUP),
        "intermediate size": (config.intermediate_size, GROUP),
        "query heads times head size": (attention.query_heads * attention.head_size, GROUP),
        "head size": (attention.head_size, HEAD_STEP),
    }
    for name, (size, step) in sizes.items():
        if size % step:
            raise NativeUnavailable(f"{name} {size} is no multiple of {step}")
    if config.activation != "silu":
        raise NativeUnavailable(f"activation {config.activation!r}")


class NativeDecoder:
    """A `CausalLM` (`causal_lm.py`) on the compiled CPU kernels, which computes a `Decoder` with packed weights."""

    def __init__(
        self,
        model: Decoder,
        read: Read,
        kernels: Kernels,
        *,
        activation_bits: ActivationBits = "auto",
        store: WeightStore | None = None,
    ) -> None:
        """Read a model's weights one after the other, and pack them.

        Args:
            model: the model's definition; its own weights are not read, so it may be on the meta device.
            read: returns a weight by its Hugging Face name.
            kernels: the kernels that compute the model.
            activation_bits: bits of the activations in products with int4 weights, and with int8 ones where that is
                faster: 16, 8, or "auto" (ADR 0083). With 8, prefill also computes attention in integers (ADR 0042,
                0045), and expands int4 weights to bytes (ADR 0044). With "auto", prefill on AMX multiplies in bfloat16
                (ADR 0093).
            store: memory for the packed matrices; None: this process's own.
        """
        self.shape = model.shape
        self.rotary = model.rotary
        self._kernels = kernels
        self._panel = kernels.panel
        self._activation_bits = activation_bits
        self._attention_bits: AttentionBits = 8 if activation_bits == 8 else 32
        self._config = model.config
        self.step_interrupt = StepInterrupt()
        self._store = store or WeightArena()
        self._keep_alive: list[PackedWeight | Tensor] = []
        stack = model.model
        self._embedding = self._pack_head("model.embed_tokens", read)
        self._head = self._embedding
        if not model.tied_embeddings:
            self._head = self._pack_head("lm_head", read)
        self._final_norm = self._norm(stack.norm, "model.norm", read)
        self._layers = [
            self._layer(layer, f"model.layers.{index}", read)  # type: ignore[arg-type]
            for index, layer in enumerate(stack.layers)
        ]
        self._bound: tuple[KVCache, ModelStruct] | None = None

    def forward(self, token_ids: Tensor, positions: Tensor, attention: StepAttention) -> Tensor:
        """Compute the final hidden states of T packed tokens of a step in the compiled kernels: [T, hidden] float32.

        One call computes all layers, attention included; keys and values are written to the KV cache.
        """
        states = self._kernels.gather(self._embedding, token_ids)
        rotation = self.rotary.at(positions, torch.float32)
        model = self._bind_cache(attention.backend.cache)
        compute = partial(self._kernels.decode, model, attention.metadata, (rotation.cos, rotation.sin, states))
        with self.step_interrupt.claim() as wakeup_fd:
            done = compute(wakeup_fd=wakeup_fd)
            while done < len(self._layers):
                done = compute(first=done, wakeup_fd=self.step_interrupt.handler())
        return states

    def logits(self, hidden: Tensor) -> Tensor:
        """Compute the next token's logits from R final hidden states: [R, hidden] to [R, vocabulary size] float32."""
        return self._kernels.linear(self._head, hidden.contiguous())

    def _bind_cache(self, cache: KVCache) -> ModelStruct:
        """Return the model's C structures with the addresses of `cache`."""
        if self._bound is None or self._bound[0] is not cache:
            for index, layer in enumerate(self._layers):
                layer.keys, layer.values = cache.keys[index].data_ptr(), cache.values[index].data_ptr()
            attention = self._config.attention
            model = ModelStruct(
                attention.hidden_size,
                self._config.intermediate_size,
                len(self._layers),
                HeadsStruct(attention.query_heads, attention.kv_heads, attention.head_size),
                self._final_norm,
                (LayerStruct * len(self._layers))(*self._layers),
                CacheStruct.of(cache, bits=self._attention_bits),
            )
            self._bound = cache, model
        return self._bound[1]

    def _layer(self, layer: DecoderLayer, path: str, read: Read) -> LayerStruct:
        attention, mlp = layer.self_attn, layer.mlp
        normed = self._config.attention.qk_norm_eps is not None
        return LayerStruct(
            input_norm=self._norm(layer.input_layernorm, f"{path}.input_layernorm", read),
            post_norm=self._norm(layer.post_attention_layernorm, f"{path}.post_attention_layernorm", read),
            query_norm=self._norm(attention.q_norm, f"{path}.self_attn.q_norm", read) if normed else NormStruct(),
            key_norm=self._norm(attention.k_norm, f"{path}.self_attn.k_norm", read) if normed else NormStruct(),
            qkv=self._linear(attention.qkv_proj, f"{path}.self_attn.qkv_proj", read),
            output=self._linear(attention.o_proj, f"{path}.self_attn.o_proj", read),
            gate_up=self._linear(mlp.gate_up_proj, f"{path}.mlp.gate_up_proj", read, gated=True),
            down=self._linear(mlp.down_proj, f"{path}.mlp.down_proj", read),
            rotary=attention.pattern.rotary,
            window=attention.pattern.sliding_window or 0,
        )

    def _linear(self, layer: Linear, path: str, read: Read, *, gated: bool = False) -> LinearStruct:
        """Pack a linear layer. `gated`: interleave gate and up, so that the product can end with `silu(gate) * up`."""
        parent = path.rpartition(".")[0]
        paths = [f"{parent}.{part}" for part in layer.parts] if isinstance(layer, MergedLinear) else [path]

        def read_all() -> tuple[Values, Tensor | None]:
            matrix = concatenate([read(f"{path}.weight") for path in paths])
            bias = None if layer.bias is None else torch.cat([_vector(read, f"{path}.bias") for path in paths])
            if gated:
                matrix = interleave(matrix, self._panel // 2)
                bias = None if bias is None else interleave_rows(bias, self._panel // 2)
            return matrix, bias

        packed = self._pack(path, read_all)
        self._keep_alive.append(packed)
        return LinearStruct.of(packed)

    def _pack(self, name: str, read: Callable[[], tuple[Values, Tensor | None]]) -> PackedWeight:
        def packed() -> PackedWeight:
            values, bias = read()
            narrow = self._kernels.multiplies_bytes or not isinstance(values, Int8Values)
            return pack(
                values,
                bias,
                panel=self._panel,
                activation_bits=self._activation_bits,
                signed=not narrow,
                paired=self._kernels.multiplies_bfloat16,
            )

        return self._store.keep(name, packed)

    def _pack_head(self, name: str, read: Read) -> PackedWeight:
        """Pack the embedding or the output layer, where only 8 bits round inputs to less than 16 (ADR 0083)."""
        packed = self._pack(name, lambda: (read(f"{name}.weight"), None))
        return replace(packed, activation_bits=8 if self._activation_bits == 8 else 16)

    def _norm(self, norm: RMSNorm, path: str, read: Read) -> NormStruct:
        weight = _vector(read, f"{path}.weight").float().contiguous()
        self._keep_alive.append(weight)
        return NormStruct(weight.data_ptr(), norm.eps)


def _vector(read: Read, name: str) -> Tensor:
    vector = read(name)
    if not isinstance(vector, Tensor):
        raise TypeError(f"{name} is quantised")
    return vector
