"""What can be set on a worker: `EngineSettings` crosses to the engine process, `WorkerSettings` comes from outside.

Read once at start-up, checked there, then passed down as narrow values. Does not resolve the model, load
anything or import torch.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Annotated, Literal

from pydantic import AfterValidator, BeforeValidator, Field
from pydantic_settings import BaseSettings, SettingsConfigDict

from router.topology import check_model_name, check_worker_id

Device = Annotated[str, Field(pattern=r"^(cpu|cuda(:\d+)?)$")]
DType = Literal["auto", "float32", "bfloat16", "float16"]
CacheDType = Literal["auto", "float32", "bfloat16", "float16", "int8"]
Quantization = Literal["none", "int8", "int4", "auto"]
Speculation = Literal["off", "ngram", "auto"]

_SIZE = re.compile(r"\s*(\d+(?:\.\d+)?)\s*(?:([KMGT])(i?)B?|B)?\s*", re.IGNORECASE)
_POWERS = {"K": 1, "M": 2, "G": 3, "T": 4}


@dataclass(frozen=True)
class EngineSettings:
    """Everything the engine process needs to build its engine. Plain values: it is sent to a spawned child."""

    model: str
    """A Hugging Face id, a folder with safetensors, or a .gguf file."""
    device: str = "cpu"
    dtype: str = "auto"
    """"auto": bfloat16 on CUDA and on CPUs with AVX512-BF16 or AMX, else float32."""
    quantization: str = "none"
    """Of the weights: none, int8, int4, or "auto": what a GGUF has, else none."""
    activation_bits: int = 16
    """What states are rounded to before they meet an int4 weight: 16, or 8 as llama.cpp does."""
    kv_cache_dtype: str = "auto"
    """"auto": the weights' format; beside quantised ones float16, or int8 beside states of 8 bits."""
    max_model_len: int | None = None
    """Context length in tokens; `None`: the model's own."""
    max_num_seqs: int = 64
    max_num_batched_tokens: int = 2048
    block_size: int = 16
    """Tokens in one KV block."""
    kv_cache_memory: int | None = None
    """Bytes; `None`: a sane share of what is free."""
    num_kv_blocks: int | None = None
    """Overrides `kv_cache_memory`; for tests."""
    enable_prefix_caching: bool = True
    speculation: str = "off"
    """Tokens guessed ahead by prompt lookup: off, ngram (whenever something matches) or auto (where it pays)."""
    attention: str = "auto"
    threads: int | None = None
    """CPU threads of the engine; `None`: torch's own choice."""


def tokens_of_a_step(device: str) -> int:
    """`max_num_batched_tokens` unless set: as many as fill the device, and no more than its caches are good for.

    A step holds up everybody who is being answered: on two cores 512 tokens take well under a second.
    """
    return 512 if device == "cpu" else 2048


def parse_size(value: object) -> object:
    """Turn "2GiB", "500 MB" or "1048576" into bytes (`KB` is 1000, `KiB` is 1024); other values pass through.

    Raises:
        ValueError: a string that is not a size.
    """
    if not isinstance(value, str):
        return value
    match = _SIZE.fullmatch(value)
    if match is None:
        raise ValueError(f"{value!r} is not a size: write for example 2GiB, 500MB or a number of bytes")
    number, prefix, binary = match.groups()
    factor = (1024 if binary else 1000) ** _POWERS[prefix.upper()] if prefix else 1
    return int(float(number) * factor)


def parse_choice(value: object) -> object:
    """Turn "8" into 8, for a choice among numbers: the environment has words only; other values pass through."""
    return int(value) if isinstance(value, str) and value.isdecimal() else value


ActivationBits = Annotated[Literal[16, 8], BeforeValidator(parse_choice)]
Size = Annotated[int, BeforeValidator(parse_size), Field(gt=0)]
ModelName = Annotated[str, AfterValidator(check_model_name)]
WorkerId = Annotated[str, AfterValidator(check_worker_id)]


class WorkerSettings(BaseSettings):
    """Settings of a worker process: environment variables `HEADRACE_...`, overridden by the command line."""

    model_config = SettingsConfigDict(env_prefix="HEADRACE_", frozen=True, extra="forbid")

    amqp_url: str = Field(default="", description="RabbitMQ to take jobs from; empty only in the all-in-one process")
    control_secret: str = Field(
        default="",
        repr=False,
        description="Secret of control messages, as of the gateways; required with a broker",
    )
    model: str = Field(description="Model to serve: a Hugging Face id, a folder with safetensors, or a .gguf file")
    served_model_name: ModelName | None = Field(
        default=None, description="Name clients ask for; by default taken from the model's id or file name"
    )
    id: WorkerId = Field(default="worker-1", description="Name of this worker, unique on its broker")
    device: Device = Field(default="cpu", description="Where the engine computes: cpu, cuda or cuda:N")
    dtype: DType = Field(default="auto", description="Number format of weights that are not quantised")
    quantization: Quantization = Field(
        default="auto",
        description="Weights on the CPU: none, int8, int4 (a Q4_0 or Q4_1 GGUF's own), or auto: as a GGUF has them",
    )
    activation_bits: ActivationBits = Field(
        default=16,
        description="Bits of the states beside int4 weights, with AVX-512 int8 ones too: 16 answers as the float32"
        " model does, 8 is faster for many sequences",
    )
    kv_cache_dtype: CacheDType = Field(
        default="auto",
        description="Number format of the KV cache; auto: as dtype; beside quantised weights float16, with 8 activation"
        " bits int8, which takes about half the memory (not on CUDA)",
    )
    max_model_len: int | None = Field(
        default=None, ge=2, description="Context length in tokens; by default the model's own"
    )
    max_num_seqs: int = Field(default=64, ge=1, le=4096, description="Sequences computed together in one step at most")
    max_num_batched_tokens: int | None = Field(
        default=None,
        ge=16,
        description="Tokens computed in one step at most; by default 512 on the CPU, else 2048",
    )
    block_size: int = Field(default=16, ge=1, le=256, description="Tokens in one block of the KV cache")
    kv_cache_memory: Size | None = Field(
        default=None, description="Memory of the KV cache, for example 2GiB; by default a share of what is free"
    )
    enable_prefix_caching: bool = Field(default=True, description="Reuse KV blocks of prompts with the same beginning")
    speculation: Speculation = Field(
        default="auto",
        description="Guess tokens ahead from the text before (prompt lookup): off, ngram (whenever there is a guess),"
        " or auto (where it is likely to pay: for few sequences, by the CPU's own kernels); the output is the same",
    )
    attention: str = Field(default="auto", description="Attention backend; auto picks the best for the device")
    threads: int | None = Field(
        default=None,
        ge=1,
        description="CPU threads of the engine; by default one per core; engines of one launcher share them",
    )
    stall_seconds: float = Field(
        default=30.0, gt=0, description="An engine that has work and finishes no step for so long is started again"
    )
    drain_grace: float = Field(
        default=120.0, ge=0, description="Seconds that running jobs may take to end when draining"
    )
    ops_host: str = Field(default="127.0.0.1", description="Address of the /metrics, /healthz and /status server")
    ops_port: int = Field(default=0, ge=0, le=65535, description="Port of that server; 0: any free one")
    log_level: str = Field(default="info", description="Least level that is logged: debug, info, warning or error")
    log_style: Literal["console", "json"] = Field(default="console", description="Logs for people or for machines")

    def engine(self) -> EngineSettings:
        """The part that the engine process needs."""
        return EngineSettings(
            model=self.model,
            device=self.device,
            dtype=self.dtype,
            quantization=self.quantization,
            activation_bits=self.activation_bits,
            kv_cache_dtype=self.kv_cache_dtype,
            max_model_len=self.max_model_len,
            max_num_seqs=self.max_num_seqs,
            max_num_batched_tokens=self.max_num_batched_tokens or tokens_of_a_step(self.device),
            block_size=self.block_size,
            kv_cache_memory=self.kv_cache_memory,
            enable_prefix_caching=self.enable_prefix_caching,
            speculation=self.speculation,
            attention=self.attention,
            threads=self.threads,
        )
