"""Builds models of published shapes with random weights for the GPU benchmark, and computes their memory bound.

Random weights may be quantised, as those of a quantised checkpoint are when it is loaded.

Speed does not depend on the weights' values, so no checkpoint is needed. The bound of a decode step is the time to read
every weight once, and every running sequence's keys and values, at the bandwidth of a plain copy.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass
from typing import NamedTuple

import torch
from torch import Tensor
from transformers import LlamaConfig, LlamaForCausalLM

from inference_worker.engine.engine import Engine
from inference_worker.engine.layers.decoder import Decoder
from inference_worker.engine.layers.rms_norm import RMSNorm
from inference_worker.engine.layers.rotary import rotary_from_config
from inference_worker.engine.models.families import FAMILIES
from inference_worker.engine.native.packing import GROUP, Fp8Values, Int4Values, Int8Values
from inference_worker.engine.weights.weights import Quantisation, parameters_by_name
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


class Storage(NamedTuple):
    """The formats of linear layers' weights (`none`: not quantised; `int8`, `int4` or `fp8`) and of the KV cache."""

    weights: str = "none"
    cache: str = "auto"


STORAGES = [
    Storage(),
    Storage("int8"),
    Storage("int4"),
    Storage("fp8"),
    Storage(cache="int8"),
    Storage("int4", cache="int8"),
]


class RandomMatrices:
    """A `Checkpoint` of a model in memory whose matrices are read as random ones in a quantised format.

    Groups of 128 inputs share a scale where they fit, as in most published checkpoints.
    """

    files = ()

    def __init__(self, model: Decoder, form: str) -> None:
        self._parameters = parameters_by_name(model)
        self._form = form

    def shapes(self) -> Mapping[str, tuple[int, ...]]:
        """Return the shape of every parameter by its name in checkpoints."""
        return {name: tuple(parameter.shape) for name, parameter in self._parameters.items()}

    def read(self, name: str) -> Tensor:
        """Return the parameter `name`, which is not copied."""
        return self._parameters[name]

    def quantisation(self) -> Quantisation:
        """Return how the CPU kernels would have the matrices."""
        return "int4" if self._form == "int4" else "int8"

    def quantised(self, name: str) -> Int4Values | Int8Values | Fp8Values:
        """Return a random matrix of the shape of the parameter `name`, on its device."""
        weight = self._parameters[name]
        outputs, inputs = weight.shape
        span = 128 if inputs % 128 == 0 else GROUP
        scales = torch.rand(outputs, inputs // span, device=weight.device).repeat_interleave(span // GROUP, dim=1)
        if self._form == "fp8":
            return Fp8Values((weight.float() / 0.02 * 64).to(torch.float8_e4m3fn), scales * 0.0005)
        if self._form == "int8":
            codes = torch.randint(-127, 128, weight.shape, dtype=torch.int8, device=weight.device)
            return Int8Values(codes, scales * 0.0005)
        codes = torch.randint(0, 16, weight.shape, dtype=torch.uint8, device=weight.device)
        return Int4Values(codes, scales * 0.008, scales * -0.06)


def our_engine(
    shape: Shape, device: torch.device, sequences: int, context: int, storage: Storage = STORAGES[0]
) -> Engine:
    """Build Headrace's engine with random weights for `sequences` of `context` tokens, without a prefix cache.

    On the CPU its attention and quantised matrices are computed by Triton's interpreter.
    """
    config, dtype = shape.config(context), weight_dtype(device)
    described = FAMILIES["llama"](config)
    rotary = rotary_from_config(config, described.shape.head_size)
    with torch.device("meta"):
        model = Decoder(described, rotary, dtype=dtype)
    model.allocate(device)
    _randomise(model)
    if storage.weights != "none":
        # Imported here because it loads Triton.
        from inference_worker.engine.loading.triton_conversion import fill  # noqa: PLC0415

        fill(model, RandomMatrices(model, storage.weights), device, "own")
    settings = EngineSettings(
        model=shape.name,
        device=str(device),
        attention="triton",
        quantization=storage.weights,
        kv_cache_dtype=storage.cache,
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
