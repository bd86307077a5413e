"""The engine of text generation: schedules a step, executes it, commits the outcome. Token ids in, token events out."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import replace
from functools import partial

import structlog
import torch

from inference_worker.engine.attention.registry import create_attention
from inference_worker.engine.attention_backend import AttentionBackend
from inference_worker.engine.batch import Batch
from inference_worker.engine.causal_lm import CausalLM, ModelShape
from inference_worker.engine.execution.cache_allocation import allocate_cache
from inference_worker.engine.execution.fault_isolation import IsolatingRunner
from inference_worker.engine.execution.model_runner import ModelRunner, Runner
from inference_worker.engine.kv_cache import KVCache, KVCacheShape
from inference_worker.engine.layers.decoder import Decoder
from inference_worker.engine.layers.native_decoder import NativeDecoder
from inference_worker.engine.loading.draft_model import DraftModel, load_draft_model
from inference_worker.engine.loading.dtypes import kv_cache_dtype_for, weight_dtype
from inference_worker.engine.loading.kernel_conversion import convert_to_kernels, load_or_describe
from inference_worker.engine.native.library import usable_instructions
from inference_worker.engine.native.step_interrupt import AT_NEXT_LAYER, NEVER, StepInterrupt
from inference_worker.engine.scheduling.block_manager import BlockManager
from inference_worker.engine.scheduling.draft_speculation import DraftSpeculation
from inference_worker.engine.scheduling.limits import EngineLimits
from inference_worker.engine.scheduling.memory_pool import MemoryPool
from inference_worker.engine.scheduling.prefill_priority import MAX_FLEX_DEFERRALS
from inference_worker.engine.scheduling.prefix_cache import NoPrefixCache, PrefixCache
from inference_worker.engine.scheduling.scheduler import Scheduler
from inference_worker.engine.scheduling.speculation import (
    FREE_ROWS,
    LookupSpeculation,
    NoSpeculation,
    Speculation,
    StepCost,
)
from inference_worker.engine.shared_cores import SharedCores
from inference_worker.engine_protocol import EngineLoad, GenerationRequest, Ready, RequestFailed, TokenEvent
from inference_worker.errors import ModelError
from inference_worker.model_files.model_source import resolve
from inference_worker.settings import EngineSettings
from inference_worker.structured.compilation_queue import CompilationQueue, ReadVocabulary, no_vocabulary
from inference_worker.tokenizer.tokenizer_files import read_vocabulary

_NARROW, _WIDE = StepCost(fixed=6, cheap_rows=4), StepCost(fixed=8, cheap_rows=16)
STEP_COSTS = {"avx2": _NARROW, "avx512": _WIDE, "avx512bf16": _WIDE, "amx": _WIDE, "neon": _NARROW, "i8mm": _NARROW}
"""Step costs of the compiled kernels by instruction set (ADR 0009); measured with AVX2 and AVX-512 only."""

UNMEASURED_COST = StepCost(fixed=64, cheap_rows=32)
"""Step cost for a draft model where the kernels are not the compiled ones (ADR 0085)."""

PRIORITY_PREFILL_TOKENS = range(64, 257)
"""Prompt tokens of a step on a CPU for which decodes are deferred: fewer cost little next to the decodes, more take
long in any case (ADR 0046)."""

CATCH_UP_TOKENS = 64
"""Most tokens that a draft model on a CPU computes at once: other requests wait for the end of its step."""

MAX_DECODE_STEPS = 16
"""Most decode steps per batch where they run as CUDA graphs."""

GRAMMAR_WAIT = 0.005
"""Seconds that an idle engine waits for a grammar to compile before it reads commands again."""

log = structlog.get_logger(__name__)


class Engine:
    """A generation engine: one model, one KV cache, one scheduler. Not thread-safe."""

    def __init__(
        self,
        scheduler: Scheduler,
        runner: Runner,
        compilations: CompilationQueue,
        ready: Ready,
        *,
        step_interrupt: StepInterrupt | None = None,
        cores: SharedCores | None = None,
    ) -> None:
        """`step_interrupt`: the model's, if its steps can be interrupted; `cores`: those on which it computes."""
        self._step_interrupt = step_interrupt or StepInterrupt()
        self._commands = NEVER
        self._current = Batch()
        """The step that is computed, or was computed last; those between its layers aside."""
        self._step_seconds = 0.0
        self._cores = cores
        self.scheduler = scheduler
        self.runner = runner
        self.compilations = compilations
        self._ready = ready
        self._failures: list[RequestFailed] = []

    @classmethod
    def from_settings(cls, settings: EngineSettings, pool: MemoryPool | None = None) -> Engine:
        """Load the model that `settings` name and return a generation engine of it, with its KV cache allocated.

        The blocks of the cache are lent by `pool`, if there is one.

        Raises:
            ModelError: the model or its draft model can't be loaded, or the KV cache does not fit the memory.
        """
        device = torch.device(settings.device)
        dtype = weight_dtype(settings.dtype, device)
        source = resolve(settings.model)
        loaded = load_or_describe(source, dtype, settings)
        draft = None
        if settings.draft_model is not None:
            if pool is not None:
                raise ModelError("a worker that serves a verifier too can't have a draft model")
            draft = load_draft_model(settings.draft_model, loaded, source, settings, dtype)
        model, scheme = convert_to_kernels(loaded, source, settings)
        log.info("model loaded", dtype=str(dtype).removeprefix("torch."), quantization=scheme)
        read = partial(read_vocabulary, source.path)
        settings = replace(settings, quantization=scheme)
        return cls.from_model(model, settings, dtype, vocabulary=read, pool=pool, draft=draft)

    @classmethod
    def from_model(
        cls,
        model: CausalLM,
        settings: EngineSettings,
        dtype: torch.dtype,
        *,
        vocabulary: ReadVocabulary = no_vocabulary,
        pool: MemoryPool | None = None,
        draft: DraftModel | None = None,
    ) -> Engine:
        """Return a generation engine of a model that is loaded already, with its KV cache allocated.

        Args:
            dtype: number format of the model's weights; `settings.quantization` names how they are quantised.
            vocabulary: reads the tokeniser's vocabulary when the first grammar needs it.
            pool: lends the blocks of the cache; `None`: the cache has memory of its own.
            draft: the draft model, of the same vocabulary; not together with `pool`.

        Raises:
            ModelError: the KV cache does not fit the memory.
        """
        device, shape = torch.device(settings.device), model.shape
        cache_shape = _cache_shape(settings, shape, dtype)
        draft_shape = None if draft is None else _cache_shape(settings, draft.model.shape, dtype)
        draft_bytes = 0 if draft_shape is None else draft_shape.bytes_per_block
        context = _context_length(settings, shape)
        cached = _prefix_cache(settings)
        memory = allocate_cache(settings, cache_shape, context, cached, pool, draft_block_bytes=draft_bytes)
        attention = create_attention(settings.attention, memory.cache, device, settings.instructions)
        speculation = _lookup(settings, attention.name)
        if draft is not None and draft_shape is not None:
            draft_cache = KVCache(draft_shape, memory.blocks.num_blocks, device)
            speculation = _draft_speculation(draft, draft_cache, settings, attention.name, speculation)
        decode_steps = MAX_DECODE_STEPS if _uses_cuda_graphs(model, attention) else 1
        limits = _limits(settings, shape, memory.max_model_len, decode_steps)
        ready = Ready(
            max_model_len=limits.max_model_len,
            vocab_size=shape.vocab_size,
            max_num_seqs=limits.max_num_seqs,
            kv_blocks=memory.blocks.num_blocks,
            block_size=settings.block_size,
            kv_block_bytes=cache_shape.bytes_per_block,
            device=str(device),
            dtype=str(dtype).removeprefix("torch."),
            attention=attention.name,
            quantization=settings.quantization,
            eos_token_ids=sorted(shape.eos_token_ids),
            preempts_flex=True,
        )
        return cls(
            Scheduler(limits, memory.blocks, speculation),
            _runner(model, attention, limits, device),
            CompilationQueue(vocabulary, shape.vocab_size, shape.eos_token_ids),
            ready,
            step_interrupt=model.step_interrupt if isinstance(model, NativeDecoder) else None,
            cores=SharedCores() if device.type == "cpu" else None,
        )

    def ready(self) -> Ready:
        """Return the message that reports the model, its number formats and the engine's limits to the worker."""
        return self._ready

    def add(self, request: GenerationRequest) -> None:
        """Queue a generation request for the next steps; it replaces a request of the same id.

        A request that this engine can never run, as it exceeds a limit, is reported by the next call of `failures`.
        """
        self.abort(request.id)
        if request.grammar is None:
            self.scheduler.add(request)
        else:
            self.compilations.begin(request, request.grammar)

    def abort(self, request: str, choice: int | None = None) -> None:
        """Drop request `request`, or only its choice `choice`, and free its KV blocks; unknown ids are ignored."""
        if choice is None:
            self.compilations.abort(request)
        self.scheduler.abort(request, choice)
        self._hold_cores()  # no step follows if this was the last request

    def has(self, request: str) -> bool:
        """Return whether the request with the id `request` was added, and has neither ended nor been aborted."""
        return self.scheduler.has(request) or self.compilations.has(request)

    def computes(self, request: str) -> bool:
        """Return whether the current step computes the request with the id `request`, which then can't be aborted."""
        return self._current.computes(request)

    def enable_step_interrupts(
        self, commands: int, receive: Callable[[], None], emit: Callable[[list[TokenEvent]], None]
    ) -> None:
        """Let requests that arrive during a step be computed between its layers: a short prompt, beside `flex` all.

        Does nothing where the model can't be interrupted between layers (ADR 0049, ADR 0075).

        Args:
            commands: file descriptor that becomes readable when a command arrives.
            receive: applies the commands that have arrived but those for requests that the step `computes`.
            emit: called with the events of a step between two layers before the interrupted step goes on.
        """

        def compute(batch: Batch | None) -> bool:
            if batch is not None:
                emit(self.scheduler.commit(batch, self.runner.execute(batch)))
            return batch is not None

        def interrupt() -> int:
            receive()
            self._hold_cores()
            if not self._current.is_flex:
                compute(self.scheduler.schedule_prefill_interrupt())
                return NEVER
            for _ in range(MAX_FLEX_DEFERRALS):
                self._take_compiled()
                if not compute(self.scheduler.schedule_beside_flex()):
                    return commands
                receive()
            return AT_NEXT_LAYER

        self._commands, self._step_interrupt.handler = commands, interrupt

    def step(self) -> list[TokenEvent]:
        """Run one step of all running sequences (on CUDA perhaps several decode steps); return new tokens as events.

        A step schedules tokens, computes them and commits the outcome. Call it while `has_work` is true.
        """
        self._take_compiled()
        batch = self._current = self.scheduler.schedule()
        gives_way = batch.is_flex and self.scheduler.has_non_flex and self._commands != NEVER
        self._step_interrupt.wakeup_fd = AT_NEXT_LAYER if gives_way else self._commands
        self._hold_cores()
        began = time.monotonic()
        result = self.runner.execute(batch)
        self._step_seconds = time.monotonic() - began
        events = self.scheduler.commit(batch, result)
        self._hold_cores()
        return events

    def pause(self) -> float:
        """Return the seconds to wait for a command before the next step, which leaves the cores to other processes.

        After a step of `flex` on a CPU they are as many as it took, while people use the model: the processes that
        serve their requests and those of `flex` may run on the same cores.
        """
        spares_cores = self._commands != NEVER and self._current.is_flex and self.scheduler.spares_cores
        return self._step_seconds if spares_cores else 0.0

    def _hold_cores(self) -> None:
        if self._cores is not None:
            self._cores.hold(self.scheduler.has_non_flex)

    def has_work(self) -> bool:
        """Return whether `step` should be called: a request is waiting or running, or its grammar compiles."""
        return self.scheduler.has_work() or bool(self.compilations)

    def load(self) -> EngineLoad:
        """Return the engine's load for metrics: counters (tokens, steps, preemptions), gauges (sequences, blocks)."""
        return self.scheduler.load()

    def failures(self) -> list[RequestFailed]:
        """Return and clear the list of requests that failed since the last call, each with its id and the reason."""
        failures, self._failures = self._failures, []
        return failures + self.scheduler.take_failures()

    def _take_compiled(self) -> None:
        """Schedule the requests whose grammars are compiled; an otherwise idle engine waits briefly for one."""
        for outcome in self.compilations.take(0.0 if self.scheduler.has_work() else GRAMMAR_WAIT):
            if isinstance(outcome, RequestFailed):
                self._failures.append(outcome)
            else:
                self.scheduler.add(outcome.request, outcome.matchers)


def _lookup(settings: EngineSettings, attention: str) -> Speculation:
    """Return the prompt lookup that the settings select, with the step cost of this attention backend."""
    if settings.speculation == "ngram":
        return LookupSpeculation(FREE_ROWS)
    if settings.speculation == "auto" and attention == "native":
        return LookupSpeculation(STEP_COSTS[usable_instructions(settings.instructions)])
    return NoSpeculation()


def _draft_speculation(
    draft: DraftModel, cache: KVCache, settings: EngineSettings, attention: str, lookup: Speculation
) -> Speculation:
    """Return the speculation with a draft model, over a cache of its own; `attention` is the backend of the model."""
    device = torch.device(settings.device)
    attend = create_attention(settings.attention, cache, device, settings.instructions)
    runner = ModelRunner(draft.model, attend, device)
    return DraftSpeculation(
        IsolatingRunner(runner).execute,
        BlockManager(cache.num_blocks, settings.block_size, _prefix_cache(settings)),
        STEP_COSTS[usable_instructions(settings.instructions)] if attention == "native" else UNMEASURED_COST,
        relative_cost=draft.relative_cost,
        max_model_len=draft.model.shape.max_position,
        max_batched_tokens=settings.max_num_batched_tokens if device.type == "cuda" else CATCH_UP_TOKENS,
        lookup=lookup,
    )


def _prefix_cache(settings: EngineSettings) -> PrefixCache:
    return PrefixCache() if settings.enable_prefix_caching else NoPrefixCache()


def _cache_shape(settings: EngineSettings, shape: ModelShape, dtype: torch.dtype) -> KVCacheShape:
    """Return the sizes of the KV cache of a model, whose weights are `dtype` if they are not quantised."""
    kv_dtype = kv_cache_dtype_for(
        settings.kv_cache_dtype, dtype, settings.quantization, settings.activation_bits, torch.device(settings.device)
    )
    return KVCacheShape(shape.layers, shape.kv_heads, shape.head_size, settings.block_size, kv_dtype)


def _uses_cuda_graphs(model: CausalLM, attention: AttentionBackend) -> bool:
    """Return whether decode steps can run as CUDA graphs: neither model nor attention synchronises with the device."""
    return isinstance(model, Decoder) and attention.name == "triton" and attention.cache.keys[0].is_cuda


def _runner(model: CausalLM, attention: AttentionBackend, limits: EngineLimits, device: torch.device) -> Runner:
    """Return the runner for the model; batches of several steps need CUDA graphs."""
    if limits.max_decode_steps == 1 or not isinstance(model, Decoder):
        return IsolatingRunner(ModelRunner(model, attention, device))
    from inference_worker.engine.execution.cuda_runner import cuda_runner  # noqa: PLC0415 - loads Triton

    return cuda_runner(model, attention, limits)


def _context_length(settings: EngineSettings, shape: ModelShape) -> int:
    """Return the configured context length in tokens, by default the model's.

    Raises:
        ModelError: it is longer than the model's.
    """
    if settings.max_model_len is None:
        return shape.max_position
    if settings.max_model_len > shape.max_position:
        raise ModelError(f"max_model_len {settings.max_model_len}: the model's context is {shape.max_position}")
    return settings.max_model_len


def _limits(settings: EngineSettings, shape: ModelShape, max_model_len: int, max_decode_steps: int) -> EngineLimits:
    """Return the limits in force, with the context that the KV cache has room for."""
    return EngineLimits(
        max_model_len=max_model_len,
        max_num_seqs=settings.max_num_seqs,
        max_num_batched_tokens=settings.max_num_batched_tokens,
        vocab_size=shape.vocab_size,
        eos_token_ids=frozenset(shape.eos_token_ids),
        max_decode_steps=max_decode_steps,
        priority_prefill_tokens=PRIORITY_PREFILL_TOKENS if settings.device == "cpu" else range(0),
    )
