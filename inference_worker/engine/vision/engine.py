"""Engine of a vision-language model: each step computes the next token of one sequence, in turn with the others.

Sequences take turns token by token. Sampling, grammars and stop conditions are those of the generation engine, so a
sequence continues at any worker after the tokens that were delivered. A prompt is computed in one step.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence as Rows
from dataclasses import dataclass, replace
from functools import partial

import structlog
import torch

from inference_worker.engine.execution.cache_size import available_memory
from inference_worker.engine.loading.dtypes import weight_dtype
from inference_worker.engine.sampling.sampler import Sampler
from inference_worker.engine.scheduling.limits import EngineLimits
from inference_worker.engine.scheduling.new_requests import rejection_reason, to_sequences
from inference_worker.engine.scheduling.stop_conditions import finish_reason, stop_token
from inference_worker.engine.sequence import Sequence
from inference_worker.engine.vision.model import ModelState, VisionModel
from inference_worker.engine_protocol import (
    EngineLoad,
    GenerationRequest,
    ModelInput,
    PositionLogprobs,
    Ready,
    RequestFailed,
    TokenEvent,
)
from inference_worker.errors import ModelError
from inference_worker.model_files.model_source import ModelSource
from inference_worker.settings import EngineSettings
from inference_worker.structured.compilation_queue import CompilationQueue, ReadVocabulary, no_vocabulary
from inference_worker.structured.matcher import Matcher
from inference_worker.tokenizer.tokenizer_files import read_vocabulary

GRAMMAR_WAIT = 0.005
"""Seconds that an idle engine waits for a grammar to compile before it reads commands again."""

log = structlog.get_logger(__name__)


@dataclass(eq=False)
class _Turn:
    """A sequence, the arrays of its prompt's images, and the model's state of it once it has begun."""

    sequence: Sequence
    inputs: list[ModelInput]
    state: ModelState | None = None


class VisionEngine:
    """An engine that generates text about images, one token of one sequence at a time. Not thread-safe."""

    def __init__(
        self, model: VisionModel, settings: EngineSettings, *, vocabulary: ReadVocabulary = no_vocabulary
    ) -> None:
        """Create the engine of a loaded model; `vocabulary` reads the tokeniser's vocabulary for the first grammar.

        Raises:
            ModelError: one sequence's KV cache does not fit the memory, or the context is longer than the model's.
        """
        self._model = model
        self._settings = settings
        self._limits = _limits(model, settings)
        self._sampler = Sampler()
        self._compilations = CompilationQueue(vocabulary, model.vocab_size, model.eos_token_ids)
        self._running: deque[_Turn] = deque()
        """Sequences that take turns; the first one is next."""
        self._waiting: deque[_Turn] = deque()
        self._failures: list[RequestFailed] = []
        self._load = EngineLoad()

    @classmethod
    def load_model(cls, source: ModelSource, settings: EngineSettings) -> VisionEngine:
        """Load the vision-language model `source` and return an engine of it, ready for requests.

        Raises:
            ModelError: the model can't be served.
        """
        if settings.quantization not in ("auto", "none"):
            raise ModelError(f"quantization {settings.quantization}: models that read images are served as they are")
        device = torch.device(settings.device)
        model = VisionModel.load(source.path, weight_dtype(settings.dtype, device), device)
        settings = replace(settings, dtype=str(model.dtype).removeprefix("torch."))
        return cls(model, settings, vocabulary=partial(read_vocabulary, source.path))

    def ready(self) -> Ready:
        """Return the message that reports the loaded model and the engine's limits to the worker."""
        return Ready(
            max_model_len=self._limits.max_model_len,
            vocab_size=self._limits.vocab_size,
            max_num_seqs=self._limits.max_num_seqs,
            kv_blocks=0,
            block_size=self._settings.block_size,
            device=self._settings.device,
            dtype=self._settings.dtype,
            attention="transformers",
            eos_token_ids=sorted(self._limits.eos_token_ids),
        )

    def add(self, request: GenerationRequest) -> None:
        """Queue a generation request, which may have images; it replaces a request of the same id.

        A request that this engine can never run is reported by the next call of `failures`.
        """
        self.abort(request.id)
        if (reason := rejection_reason(request, self._limits)) is not None:
            self._failures.append(RequestFailed(request=request.id, message=reason))
        elif request.grammar is not None:
            self._compilations.begin(request, request.grammar)
        else:
            self._enqueue(request, [])

    def abort(self, request: str, choice: int | None = None) -> None:
        """Drop request `request`, or only its choice `choice`, and free its memory; unknown ids are ignored."""
        if choice is None:
            self._compilations.abort(request)
        for queue in (self._running, self._waiting):
            kept = [turn for turn in queue if not _is_of(turn.sequence, request, choice)]
            queue.clear()
            queue.extend(kept)

    def step(self) -> list[TokenEvent]:
        """Compute the next token of the sequence whose turn it is, and return it as an event.

        Failed requests are reported by `failures`.
        """
        self._take_compiled()
        while self._waiting and len(self._running) < self._limits.max_num_seqs:
            self._running.append(self._waiting.popleft())
        if not self._running:
            return []
        turn = self._running.popleft()
        event = self._next_event(turn)
        if event is not None and event.finish_reason is None:
            self._running.append(turn)
        return [] if event is None else [event]

    def has_work(self) -> bool:
        """Return whether `step` should be called: a request is waiting or running, or its grammar compiles."""
        return bool(self._running or self._waiting or self._compilations)

    def load(self) -> EngineLoad:
        """Return the engine's load for the worker's metrics: sequences, tokens and steps."""
        self._load.running, self._load.waiting = len(self._running), len(self._waiting)
        return self._load

    def failures(self) -> list[RequestFailed]:
        """Return and clear the list of requests that failed since the last call, each with its id and the reason."""
        failures, self._failures = self._failures, []
        return failures

    def _take_compiled(self) -> None:
        """Queue the requests whose grammars are compiled; an otherwise idle engine waits briefly for one."""
        busy = self._running or self._waiting
        for outcome in self._compilations.take(0.0 if busy else GRAMMAR_WAIT):
            if isinstance(outcome, RequestFailed):
                self._failures.append(outcome)
            else:
                self._enqueue(outcome.request, outcome.matchers)

    def _enqueue(self, request: GenerationRequest, matchers: Rows[Matcher]) -> None:
        sequences = to_sequences(request, self._limits, matchers)
        self._waiting.extend(_Turn(sequence, request.inputs) for sequence in sequences)

    def _next_event(self, turn: _Turn) -> TokenEvent | None:
        """Generate a sequence's next token; `None` if that failed, which ends its request."""
        sequence = turn.sequence
        if finish_reason(sequence) is not None:  # an earlier attempt generated everything, or nothing is wanted
            return _event(sequence, [], None)
        try:
            with torch.inference_mode():
                token, logprobs = self._generate(turn)
        except torch.AcceleratorError:
            raise  # the device is lost, and with it all sequences
        except Exception as error:
            log.exception("request failed in the model", request=sequence.request)
            self._fail(RequestFailed(request=sequence.request, message=repr(error), in_step=True))
            return None
        sequence.append(token)
        if sequence.matcher is not None and sequence.matcher.error is not None:
            reason = sequence.matcher.error
            self._fail(RequestFailed(request=sequence.request, message=reason, in_grammar=True))
            return None
        self._load.generation_tokens += 1
        return _event(sequence, [token], logprobs)

    def _generate(self, turn: _Turn) -> tuple[int, list[PositionLogprobs] | None]:
        sequence = turn.sequence
        if turn.state is None:
            turn.state = self._model.state()
            self._load.prompt_tokens += sequence.prompt_length
        for end in (sequence.prompt_length, len(sequence.token_ids)):  # delivered tokens have no images
            if sequence.computed < end:
                inputs = [] if sequence.computed else turn.inputs
                logits = self._model.compute(turn.state, sequence.token_ids[sequence.computed : end], inputs)
                self._load.step_tokens += end - sequence.computed
                sequence.computed = end
        self._load.steps += 1
        (token,), (entry,) = self._sampler.sample(logits, [sequence])
        return token, None if entry is None else [entry]

    def _fail(self, failed: RequestFailed) -> None:
        self._failures.append(failed)
        self.abort(failed.request)


def _limits(model: VisionModel, settings: EngineSettings) -> EngineLimits:
    """Return the limits in force: as many sequences as have room for a KV cache of the full context."""
    context = settings.max_model_len or model.max_position
    if context > model.max_position:
        raise ModelError(f"max_model_len {context}: the model's context is {model.max_position}")
    memory = settings.kv_cache_memory or available_memory(model.device)
    fitting = memory // (context * model.bytes_per_token)
    if fitting < 1:
        raise ModelError(f"no memory for a context of {context} tokens: set a smaller max_model_len")
    return EngineLimits(
        max_model_len=context,
        max_num_seqs=min(settings.max_num_seqs, fitting),
        max_num_batched_tokens=settings.max_num_batched_tokens,
        vocab_size=model.vocab_size,
        eos_token_ids=frozenset(model.eos_token_ids),
    )


def _event(sequence: Sequence, tokens: list[int], logprobs: list[PositionLogprobs] | None) -> TokenEvent:
    return TokenEvent(
        request=sequence.request,
        choice=sequence.choice,
        position=sequence.generated - len(tokens),
        token_ids=tokens,
        logprobs=logprobs,
        finish_reason=finish_reason(sequence),
        stop_token=stop_token(sequence),
    )


def _is_of(sequence: Sequence, request: str, choice: int | None) -> bool:
    return sequence.request == request and choice in (None, sequence.choice)
