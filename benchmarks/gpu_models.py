"""Builds models of published shapes with random weights for the GPU benchmark, and computes their memory bound.

Speed does not depend on the weights' values, so no checkpoint is needed. The bound of a decode step is the time to read
every weight once, and every running sequence's keys and values, at the bandwidth of a plain copy.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import asdict, dataclass

import torch
from transformers import LlamaConfig, LlamaForCausalLM

from inference_worker.engine.engine import Engine
from inference_worker.engine.layers.decoder import Decoder
from inference_worker.engine.layers.rms_norm import RMSNorm
from inference_worker.engine.layers.rotary import rotary_from_config
from inference_worker.engine.models.families import FAMILIES
from inference_worker.settings import EngineSettings

COPY_BYTES = 2**31
MOST_BATCHED_TOKENS = 8192


@dataclass(frozen=True)
class Shape:
    """The sizes of a Llama model, named as in its `LlamaConfig`."""

    name: str
    hidden_size: int
    intermediate_size: int
    num_hidden_layers: int
    num_attention_heads: int
    num_key_value_heads: int
    vocab_size: int
    tie_word_embeddings: bool

    def config(self, context: int) -> LlamaConfig:
        """Return the `transformers` configuration of a Llama model of this shape, for contexts of `context` tokens."""
        sizes = asdict(self)
        del sizes["name"]
        return LlamaConfig(**sizes, max_position_embeddings=context)


SHAPES = {
    "135M": Shape("135M", 576, 1536, 30, 9, 3, 49_152, tie_word_embeddings=True),  # SmolLM2-135M
    "1B": Shape("1B", 2048, 8192, 16, 32, 8, 128_256, tie_word_embeddings=True),  # Llama-3.2-1B
    "8B": Shape("8B", 4096, 14_336, 32, 32, 8, 128_256, tie_word_embeddings=False),  # Llama-3.1-8B
    "tiny": Shape("tiny", 64, 128, 2, 4, 2, 512, tie_word_embeddings=True),
}


def our_engine(shape: Shape, device: torch.device, sequences: int, context: int) -> Engine:
    """Build Headrace's engine with random weights for `sequences` of `context` tokens, without a prefix cache."""
    config, dtype = shape.config(context), weight_dtype(device)
    described = FAMILIES["llama"](config)
    rotary = rotary_from_config(config, described.shape.head_size)
    with torch.device("meta"):
        model = Decoder(described, rotary, dtype=dtype)
    model.allocate(device)
    _randomise(model)
    settings = EngineSettings(
        model=shape.name,
        device=str(device),
        max_model_len=context,
        max_num_seqs=sequences,
        max_num_batched_tokens=MOST_BATCHED_TOKENS,
        enable_prefix_caching=False,
    )
    return Engine.from_model(model, settings, dtype)


def their_model(shape: Shape, device: torch.device, context: int) -> LlamaForCausalLM:
    """Build a `transformers` Llama model of this shape with random weights, to compare Headrace's engine with."""
    with torch.device(device):
        model = LlamaForCausalLM._from_config(shape.config(context), dtype=weight_dtype(device))
    return model.eval().requires_grad_(False)


def weight_dtype(device: torch.device) -> torch.dtype:
    """Return the number format in which Headrace's engine and its peer compute: bfloat16 on CUDA, else float32."""
    return torch.bfloat16 if device.type == "cuda" else torch.float32


def bytes_per_step(shape: Shape, batch: int, context: int, itemsize: int) -> int:
    """Return how many bytes a decode step must read at least: the weights, and all sequences' keys and values.

    An untied input embedding is not counted. `itemsize`: bytes of a number.
    """
    head_size = shape.hidden_size // shape.num_attention_heads
    projections = shape.hidden_size * head_size * 2 * (shape.num_attention_heads + shape.num_key_value_heads)
    layer = projections + 3 * shape.hidden_size * shape.intermediate_size
    weights = shape.num_hidden_layers * layer + shape.vocab_size * shape.hidden_size
    states = 2 * shape.num_hidden_layers * shape.num_key_value_heads * head_size * context * batch
    return (weights + states) * itemsize


def bandwidth(device: torch.device, size: int = COPY_BYTES) -> float:
    """Measure a device's memory bandwidth by large copies: bytes per second, read plus written, of the fastest."""
    source, target = (torch.ones(size, dtype=torch.uint8, device=device) for _ in range(2))
    return 2 * size / min(timed(lambda: target.copy_(source), device) for _ in range(5))


def timed(work: Callable[[], object], device: torch.device) -> float:
    """Run `work` on a device and return its seconds, until the device has finished."""
    synchronize(device)
    start = time.perf_counter()
    work()
    synchronize(device)
    return time.perf_counter() - start


def synchronize(device: torch.device) -> None:
    """Wait until `device` has finished all work that was queued on it; returns at once for a CPU."""
    if device.type == "cuda":
        torch.cuda.synchronize(device)


@torch.no_grad()
def _randomise(model: Decoder) -> None:
    torch.manual_seed(0)
    for parameter in model.parameters():
        parameter.normal_(std=0.02)
    for module in model.modules():
        if isinstance(module, RMSNorm):
            module.weight.fill_(1.0)
