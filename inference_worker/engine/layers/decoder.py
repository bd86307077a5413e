"""Defines the decoder architecture of the Llama family in PyTorch; the files in `models/` configure it per family.

Attributes are named as in Hugging Face checkpoints (`model.layers.0.self_attn.o_proj`), by which weights are loaded.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import torch
from torch import Tensor, nn

from inference_worker.engine.attention_backend import StepAttention
from inference_worker.engine.causal_lm import ModelShape
from inference_worker.engine.layers.attention import AttentionConfig, LayerPattern, SelfAttention
from inference_worker.engine.layers.embedding import Embedding
from inference_worker.engine.layers.mlp import GatedMLP
from inference_worker.engine.layers.rms_norm import RMSNorm
from inference_worker.engine.layers.rotary import Rotary, Rotation


@dataclass(frozen=True)
class DecoderConfig:
    """The configuration of a decoder. `layers` has one pattern per layer."""

    shape: ModelShape
    attention: AttentionConfig
    layers: tuple[LayerPattern, ...]
    intermediate_size: int
    norm_eps: float
    activation: str
    tied_embeddings: bool
    mlp_bias: bool = False


class DecoderLayer(nn.Module):
    """A decoder layer: attention, then feed-forward, each on the normalised residual stream and added to it."""

    def __init__(self, config: DecoderConfig, layer: int, *, dtype: torch.dtype) -> None:
        super().__init__()
        hidden = config.attention.hidden_size
        self.input_layernorm = RMSNorm(hidden, config.norm_eps, dtype=dtype)
        self.self_attn = SelfAttention(config.attention, layer, config.layers[layer], dtype=dtype)
        self.post_attention_layernorm = RMSNorm(hidden, config.norm_eps, dtype=dtype)
        inner, act = config.intermediate_size, config.activation
        self.mlp = GatedMLP(hidden, inner, act, bias=config.mlp_bias, dtype=dtype)

    def forward(self, x: Tensor, rotation: Rotation, attention: StepAttention) -> Tensor:
        """Compute one decoder layer for T packed tokens: add attention, then the MLP, to the residual stream.

        Hidden states are [T, hidden] in and out; the tokens' keys and values are written to the KV cache.
        """
        x = x + self.self_attn(self.input_layernorm(x), rotation, attention)
        out: Tensor = x + self.mlp(self.post_attention_layernorm(x))
        return out


class DecoderStack(nn.Module):
    """The embedding, the layers and the final norm of a decoder."""

    def __init__(self, config: DecoderConfig, *, dtype: torch.dtype) -> None:
        super().__init__()
        hidden = config.attention.hidden_size
        self.embed_tokens = Embedding(config.shape.vocab_size, hidden, dtype=dtype)
        self.layers = nn.ModuleList(DecoderLayer(config, layer, dtype=dtype) for layer in range(len(config.layers)))
        self.norm = RMSNorm(hidden, config.norm_eps, dtype=dtype)

    def forward(self, token_ids: Tensor, rotation: Rotation, attention: StepAttention) -> Tensor:
        """Compute the final hidden states, after the norm, of T packed tokens: token ids [T] to [T, hidden].

        The tokens' keys and values are written to the KV cache.
        """
        x = self.embed_tokens(token_ids)
        for layer in self.layers:
            x = layer(x, rotation, attention)
        out: Tensor = self.norm(x)
        return out


class Decoder(nn.Module):
    """A `CausalLM` (`causal_lm.py`) of the Llama family, in PyTorch. Parameters are uninitialised until loaded."""

    def __init__(self, config: DecoderConfig, rotary: Rotary, *, dtype: torch.dtype) -> None:
        super().__init__()
        self.config = config
        self.shape = config.shape
        self.rotary = rotary
        self.dtype = dtype
        self.model = DecoderStack(config, dtype=dtype)
        if not config.tied_embeddings:
            self.lm_head = Embedding(config.shape.vocab_size, config.attention.hidden_size, dtype=dtype)
        self.tied_embeddings = config.tied_embeddings

    def allocate(self, device: torch.device) -> None:
        """Allocate the parameters of this model on `device`, uninitialised, so that weights can be loaded into them.

        The model was built on the meta device, without memory.
        """
        self.to_empty(device=device)
        self.rotary = self.rotary.to(device)

    def first_layers(self, count: int) -> Decoder:
        """Return a decoder of the first `count` layers, the final norm and the head, which shares these weights."""
        shape = replace(self.shape, layers=count)
        with torch.device("meta"):
            part = Decoder(
                replace(self.config, shape=shape, layers=self.config.layers[:count]), self.rotary, dtype=self.dtype
            )
        part.model.embed_tokens, part.model.norm = self.model.embed_tokens, self.model.norm
        part.model.layers = self.model.layers[:count]
        if not self.tied_embeddings:
            part.lm_head = self.lm_head
        return part

    def forward(self, token_ids: Tensor, positions: Tensor, attention: StepAttention) -> Tensor:
        """Compute the final hidden states, [T, hidden], of T packed tokens by their ids and positions ([T] each).

        The tokens' keys and values are written to the KV cache of `attention`.
        """
        out: Tensor = self.model(token_ids, self.rotary.at(positions, self.dtype), attention)
        return out

    def logits(self, hidden: Tensor) -> Tensor:
        """Compute the next token's logits from R final hidden states: [R, hidden] to [R, vocabulary size] float32."""
        head = self.model.embed_tokens if self.tied_embeddings else self.lm_head
        return head.scores(hidden)
