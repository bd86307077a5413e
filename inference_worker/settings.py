"""Defines a worker's settings: `WorkerSettings` from environment and command line, `EngineSettings` for its engine.

Read and checked once at start-up, then passed down as plain values. Must not import torch.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Literal

from pydantic import AfterValidator, BeforeValidator, Field
from pydantic_settings import BaseSettings, NoDecode, SettingsConfigDict

from router.timings import DEFAULT_TIMINGS
from router.topology import check_model_name, check_worker_id

Device = Annotated[str, Field(pattern=r"^(cpu|cuda(:\d+)?)$")]
DType = Literal["auto", "float32", "bfloat16", "float16"]
CacheDType = Literal["auto", "float32", "bfloat16", "float16", "int8"]
Quantization = Literal["none", "int8", "int4", "auto"]
Speculation = Literal["off", "ngram", "auto"]
Instructions = Literal["auto", "amx", "avx512bf16", "avx512", "avx2", "i8mm", "neon"]
"""Names of `native/build.py`'s instruction sets, or "auto"."""

_SIZE = re.compile(r"\s*(\d+(?:\.\d+)?)\s*(?:([KMGT])(i?)B?|B)?\s*", re.IGNORECASE)
_POWERS = {"K": 1, "M": 2, "G": 3, "T": 4}


def parse_choice(value: object) -> object:
    """Convert a numeric setting given as a string of digits, such as `ActivationBits`, to an integer.

    Other values pass through; pydantic then validates them.
    """
    return int(value) if isinstance(value, str) and value.isdecimal() else value


ActivationBits = Annotated[Literal["auto", 16, 8], BeforeValidator(parse_choice)]


@dataclass(frozen=True)
class EngineSettings:
    """Settings of the engine process. Plain values, because they are pickled for a spawned child."""

    model: str
    """A Hugging Face id, a folder with safetensors or a diffusers pipeline, or a .gguf file."""
    device: str = "cpu"
    dtype: str = "auto"
    """Number format of unquantised weights; "auto": bfloat16 on CUDA and CPUs with AVX512-BF16 or AMX, else float32.

    With bfloat16 such CPUs also round the inputs of products to it."""
    quantization: str = "none"
    """Quantisation of the weights: none, int8, int4, or "auto": that of the model's files, else none."""
    activation_bits: ActivationBits = "auto"
    """Bits of the activations multiplied with int4 weights: 16, 8 as in llama.cpp, or "auto": 8, but 16 for the largest
    of each group of 32 inputs."""
    kv_cache_dtype: str = "auto"
    """"auto": the weights' format; on a CPU with quantised weights float16, with 8-bit activations int8."""
    max_model_len: int | None = None
    """Context length in tokens; `None`: the model's own."""
    max_num_seqs: int = 64
    max_num_batched_tokens: int = 2048
    block_size: int = 16
    """Tokens in one KV block."""
    kv_cache_memory: int | None = None
    """Bytes; `None`: a share of the free memory."""
    num_kv_blocks: int | None = None
    """Overrides `kv_cache_memory`; for tests."""
    enable_prefix_caching: bool = True
    speculation: str = "off"
    """Speculative decoding by prompt lookup: off, ngram (whenever an n-gram matches) or auto (when it is faster)."""
    draft_model: str | None = None
    """Draft model of speculation beside prompt lookup: as `model`, or a number of the model's own first layers."""
    attention: str = "auto"
    """Attention backend; "auto": the best one for the device."""
    threads: int | None = None
    """CPU threads of the engine; `None`: torch's default."""
    instructions: Instructions = "auto"
    """Instruction set of the compiled CPU kernels; "auto": the fastest that the machine can use."""
    image_sizes: tuple[str, ...] = ()
    """Sizes that an image model draws, the default first; empty: its own, and OpenAI's of at most twice the pixels."""
    image_steps: int | None = None
    """Denoising steps of an image; `None`: the pipeline's default."""
    image_guidance: float | None = None
    """Guidance scale of images; `None`: the pipeline's default."""
    shared_weights: str | None = None
    """Folder of files with packed weights that processes share; `None`: each process has its own."""
    step_tag: str = ""
    """Text after each step at which a causal language model scores it; "": the model is no such reward model."""


def default_batched_tokens(device: str) -> int:
    """Return the default number of tokens that an engine computes per step on `device`: enough to use the device fully.

    It is the default of `max_num_batched_tokens`. More tokens would only delay the running requests: on two cores a
    step of 512 tokens takes well under a second.
    """
    return 512 if device == "cpu" else 2048


def parse_size(value: object) -> object:
    """Convert a memory size in a setting, such as "2GiB", "500 MB" or "1048576", to bytes; other types pass through.

    `KB` is 1000 bytes, `KiB` is 1024.

    Raises:
        ValueError: the string is not a size.
    """
    if not isinstance(value, str):
        return value
    match = _SIZE.fullmatch(value)
    if match is None:
        raise ValueError(f"{value!r} is not a size: write for example 2GiB, 500MB or a number of bytes")
    number, prefix, binary = match.groups()
    factor = (1024 if binary else 1000) ** _POWERS[prefix.upper()] if prefix else 1
    return int(float(number) * factor)


Size = Annotated[int, BeforeValidator(parse_size), Field(gt=0)]
_IMAGE_SIZE = re.compile(r"[1-9]\d{1,3}x[1-9]\d{1,3}")


def parse_image_sizes(value: object) -> object:
    """Split the setting of image sizes, such as "1024x1024,1024x768", into a tuple of checked strings like "1024x1024".

    Values of other types are returned as they are.

    Raises:
        ValueError: the string is not a list of sizes.
    """
    if not isinstance(value, str):
        return value
    sizes = tuple(size for each in value.split(",") if (size := each.strip()))
    for size in sizes:
        if _IMAGE_SIZE.fullmatch(size) is None:
            raise ValueError(f"{size!r} is not a size of images: write for example 1024x1024,1024x768")
    return sizes


ImageSizes = Annotated[tuple[str, ...], NoDecode, BeforeValidator(parse_image_sizes)]
ModelName = Annotated[str, AfterValidator(check_model_name)]
WorkerId = Annotated[str, AfterValidator(check_worker_id)]


class WorkerSettings(BaseSettings):
    """Settings of a worker process: environment variables `HEADRACE_...`, overridden by the command line."""

    model_config = SettingsConfigDict(env_prefix="HEADRACE_", frozen=True, extra="forbid")

    amqp_url: str = Field(default="", description="URL of RabbitMQ; empty only in the all-in-one process")
    control_secret: str = Field(
        default="",
        repr=False,
        description="Shared secret that signs control messages, the same as the gateways'; required with RabbitMQ",
    )
    model: str = Field(
        description="Model to serve: a Hugging Face id, a folder (safetensors or a diffusers pipeline), or a .gguf file"
    )
    served_model_name: ModelName | None = Field(
        default=None, description="Model name in the API; by default taken from the model's id or file name"
    )
    verifier: str | None = Field(
        default=None,
        description="Reward model that this worker serves too, as the verifier of searches; the two models divide the"
        " memory of the KV cache by need; on the CPU only",
    )
    verifier_name: ModelName | None = Field(
        default=None, description="Name of the verifier in the API; by default taken from its id or folder"
    )
    id: WorkerId = Field(default="worker-1", description="Id of this worker, unique on its broker")
    device: Device = Field(default="cpu", description="Device of the engine: cpu, cuda or cuda:N")
    dtype: DType = Field(
        default="auto",
        description="Number format of weights that are not quantised; auto: bfloat16 on CUDA and on CPUs with"
        " AVX512-BF16 or AMX (embeddings: only in products; scores: not), else float32",
    )
    quantization: Quantization = Field(
        default="auto",
        description="Weight quantisation in the CPU's compiled kernels and the Triton kernels for CUDA: none, int8,"
        " int4 (of weights that are int4 in the model's files), or auto: that of the files",
    )
    activation_bits: ActivationBits = Field(
        default="auto",
        description="Bits of the activations multiplied with int4 weights (on AVX-512 and ARM also int8): 16, 8, or"
        " auto: 16 for the two quads of inputs with the largest magnitudes in each group of 32, 8 for the others, and"
        " for prompts on AMX bfloat16; 16 gives nearly always the answers of the float32 model, 8 is the fastest",
    )
    kv_cache_dtype: CacheDType = Field(
        default="auto",
        description="Number format of the KV cache; auto: that of dtype, but on a CPU float16 with quantised weights,"
        " and int8 (half the memory) with 8 activation bits",
    )
    max_model_len: int | None = Field(
        default=None, ge=2, description="Context length in tokens; by default the model's own"
    )
    max_num_seqs: int = Field(
        default=64,
        ge=1,
        le=4096,
        description="Maximum number of sequences in one step; an image worker draws one image at a time in any case",
    )
    max_num_batched_tokens: int | None = Field(
        default=None,
        ge=16,
        description="Maximum number of tokens in one step; by default 512 on the CPU, else 2048",
    )
    block_size: int = Field(default=16, ge=1, le=256, description="Tokens in one block of the KV cache")
    kv_cache_memory: Size | None = Field(
        default=None, description="Memory of the KV cache, for example 2GiB; by default a share of the free memory"
    )
    enable_prefix_caching: bool = Field(default=True, description="Reuse KV blocks of prompts with the same prefix")
    speculation: Speculation = Field(
        default="auto",
        description="Speculative decoding by prompt lookup: off, ngram (whenever an n-gram matches), or auto (when it"
        " is likely to be faster: few sequences, compiled CPU kernels); the output is the same",
    )
    draft_model: str | None = Field(
        default=None,
        description="Draft model for speculative decoding where prompt lookup has no drafts: a Hugging Face id, folder"
        " or .gguf file of the same vocabulary, or a number of the model's own first layers; both of a family of the"
        " engine's own (llama, mistral, qwen2, qwen3, smollm3); takes a part of the KV cache's memory, and is used when"
        " it is likely to be faster, also with HEADRACE_SPECULATION=off, but not for the class flex; the output is the"
        " same",
    )
    attention: str = Field(default="auto", description="Attention backend; auto picks the best for the device")
    threads: int | None = Field(
        default=None,
        ge=1,
        description="CPU threads of the engine; by default one per core, divided among the engines of one launcher",
    )
    instructions: Instructions = Field(
        default="auto",
        description="Instruction set of the compiled CPU kernels: amx, avx512bf16, avx512 or avx2 on x86-64, i8mm or"
        " neon on ARM, or auto: the fastest that works; on a CPU a worker does not start with one that its machine"
        " can't use, on CUDA it has no effect",
    )
    image_sizes: ImageSizes = Field(
        default=(),
        description="Sizes that an image model draws, the default first, for example 1024x1024,1024x768; by default the"
        " size that the model was trained for, and those of OpenAI's API with at most twice its pixels",
    )
    image_steps: int | None = Field(
        default=None,
        ge=1,
        le=200,
        description="Denoising steps of each image; by default those of the pipeline (4 are right for FLUX.1-schnell)",
    )
    step_tag: str = Field(
        default="",
        max_length=32,
        description="Text after each step at which a causal language model scores it by the logits of + and -, as"
        " Math-Shepherd's ки; makes the model a process reward model",
    )
    shared_weights: Path | None = Field(
        default=None,
        description="Folder of files with the packed weights of the CPU kernels, which the workers of a machine map"
        " into memory and share; by default each worker has its own",
    )
    image_guidance: float | None = Field(
        default=None,
        ge=0,
        le=100,
        description="Guidance scale of images; by default that of the pipeline (0 is right for turbo models)",
    )
    search: bool = Field(
        default=False,
        description="Whether a model that generates text also runs searches for answers (test-time compute); with"
        " RabbitMQ this needs the rights of the user searcher",
    )
    stall_seconds: float = Field(
        default=DEFAULT_TIMINGS.engine_stall_timeout,
        gt=0,
        description="Seconds without a finished step after which a busy engine is restarted",
    )
    drain_grace: float = Field(
        default=DEFAULT_TIMINGS.drain_grace,
        ge=0,
        description="Seconds that running jobs may take to finish when draining",
    )
    ops_host: str = Field(default="127.0.0.1", description="Address of the /metrics, /healthz and /status server")
    ops_port: int = Field(default=0, ge=0, le=65535, description="Port of that server; 0: any free port")
    log_level: str = Field(default="info", description="Minimum log level: debug, info, warning or error")
    log_style: Literal["console", "json"] = Field(
        default="console", description="Log format: console for people, json for log collectors"
    )

    def models(self) -> list[WorkerSettings]:
        """Return the settings of each model that this worker serves: these, or those of the generator and the verifier.

        The verifier's worker id is the worker's with `-verifier`, so that it appears on the broker as another worker.
        """
        if self.verifier is None:
            return [self]
        verifier = {
            "model": self.verifier,
            "served_model_name": self.verifier_name,
            "id": check_worker_id(f"{self.id}-verifier"),
            "quantization": "int8" if self.quantization == "int8" else "none",
            "search": False,
        }
        alone = {"verifier": None, "verifier_name": None}
        return [
            self.model_copy(update={**alone, "step_tag": ""}),
            self.model_copy(update={**alone, **verifier}),
        ]

    def engine(self) -> EngineSettings:
        """Return the settings that the worker's engine process needs, as a plain `EngineSettings`."""
        return EngineSettings(
            model=self.model,
            device=self.device,
            dtype=self.dtype,
            quantization=self.quantization,
            activation_bits=self.activation_bits,
            kv_cache_dtype=self.kv_cache_dtype,
            max_model_len=self.max_model_len,
            max_num_seqs=self.max_num_seqs,
            max_num_batched_tokens=self.max_num_batched_tokens or default_batched_tokens(self.device),
            block_size=self.block_size,
            kv_cache_memory=self.kv_cache_memory,
            enable_prefix_caching=self.enable_prefix_caching,
            speculation=self.speculation,
            draft_model=self.draft_model,
            attention=self.attention,
            threads=self.threads,
            instructions=self.instructions,
            image_sizes=self.image_sizes,
            image_steps=self.image_steps,
            image_guidance=self.image_guidance,
            shared_weights=None if self.shared_weights is None else str(self.shared_weights),
            step_tag=self.step_tag,
        )
