"""Base class of the engines that compute requests' inputs in batches: embeddings, and scores of pairs of texts.

Cancellations take effect between batches, so a batch is no larger than the token budget. Requests of the class `flex`
are computed after others, but after seven batches of these at the latest, in batches of their own, which give way to
other engines of the machine (ADR 0086).
"""

from __future__ import annotations

import math
import time
from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence
from typing import Generic, Protocol, TypeVar

import structlog
import torch
from torch import Tensor, nn
from transformers import PreTrainedModel

from inference_worker.engine.input_batches.batching import Batcher, PendingInput
from inference_worker.engine.scheduling.prefill_priority import MAX_FLEX_DEFERRALS
from inference_worker.engine.shared_cores import MAX_WAIT, SharedCores
from inference_worker.engine_protocol import EngineLoad, Ready, RequestFailed
from inference_worker.errors import ModelError
from inference_worker.settings import EngineSettings

PAUSE = 8.0
"""Seconds of pause for each second of a batch of `flex` on a CPU while people are served: an import takes longer in
gateway and store than in the engine, and prompts are computed on the same cores."""
SHORT_BATCH_TOKENS = 256
"""Maximum tokens of a batch of `flex` on a CPU while people are served: prompts wait for the end of its layer."""
MAX_PAUSE = 2.0
"""Seconds of the longest pause."""
CPU_BATCH_TOKENS = 1024
"""Maximum tokens of a batch on the CPU: larger batches are not faster, and delay cancellations and other requests."""

log = structlog.get_logger(__name__)


class InputRequest(Protocol):
    """A request whose inputs are computed in any order, except those at the indexes `done`."""

    @property
    def id(self) -> str:
        """Id of the request, which its events repeat."""

    @property
    def token_ids(self) -> Sequence[list[int]]:
        """Token ids of each input of the request."""

    @property
    def flex(self) -> bool:
        """Whether the request is of the service class `flex`."""

    @property
    def done(self) -> Sequence[int]:
        """Indexes of the inputs that an earlier attempt computed, and which are not computed again."""


R = TypeVar("R", bound=InputRequest)
E = TypeVar("E")


class InputEngine(ABC, Generic[R, E]):
    """An engine that computes queued inputs, one batch of similar lengths per step. Not thread-safe."""

    vocab_size: int
    """Size of the model's vocabulary."""

    def __init__(self, settings: EngineSettings, module: PreTrainedModel, *, max_tokens: int, positions: int) -> None:
        """Create an engine for a model with `positions` positions, trained for inputs of `max_tokens` tokens.

        `module` computes it; batches of `flex` are interrupted before each of its layers.

        Raises:
            ModelError: `max_model_len` exceeds the model's positions.
        """
        self._settings = settings
        self._max_tokens = settings.max_model_len or max_tokens
        if self._max_tokens > positions:
            raise ModelError(f"max_model_len {self._max_tokens}: the model has {positions} positions")
        self._max_batch_tokens = settings.max_num_batched_tokens
        self._batchers = {flex: Batcher(self._max_batch_tokens) for flex in (False, True)}
        """The waiting inputs of requests of the class `flex`, and of others."""
        self._cores = SharedCores() if settings.device == "cpu" else None
        self._resumes_at = -math.inf
        self._flex_deferrals = 0
        """Batches in a row that waiting requests of the class `flex` were left out of."""
        self._waits_until: float | None = None
        """Time until which the current step, of the class `flex`, waits for other engines."""
        for layer in _layers(module):
            layer.register_forward_pre_hook(lambda *_inputs: self._give_way())
        self._requests: dict[str, R] = {}
        """Requests with waiting inputs, by id."""
        self._failures: list[RequestFailed] = []
        self._tokens = self._steps = self._step_tokens = 0

    @abstractmethod
    def _compute(self, request_inputs: Sequence[tuple[R, PendingInput]]) -> Sequence[Tensor]:
        """Compute a batch, and return the result of each input."""

    @abstractmethod
    def _event(self, request: R, index: int, result: Tensor) -> E:
        """Return the event that reports the result of input `index` of a request."""

    def ready(self) -> Ready:
        """Return the message that reports the model and the engine's limits to the worker; subclasses implement it."""
        return Ready(
            max_model_len=self._max_tokens,
            vocab_size=self.vocab_size,
            max_num_seqs=self._settings.max_num_seqs,
            kv_blocks=0,
            block_size=self._settings.block_size,
            device=self._settings.device,
            dtype="float32" if self._settings.dtype == "auto" else self._settings.dtype,
            attention="transformers",
            eos_token_ids=[],
        )

    def add(self, request: R) -> None:
        """Queue the inputs of an embedding or score request for the next steps, except those in `request.done`."""
        self._requests[request.id] = request
        self._batchers[request.flex].add(request.id, request.token_ids, without=frozenset(request.done))

    def abort(self, request: str, choice: int | None = None) -> None:
        """Drop the waiting inputs of the request with the id `request`; unknown ids are ignored.

        `choice` is ignored too, because requests of embeddings and scores have no choices.
        """
        del choice
        if (found := self._requests.pop(request, None)) is not None:
            self._batchers[found.flex].drop(request)
            self._hold_cores()  # no step follows if this was the last request

    def step(self) -> list[E]:
        """Compute the next batch of waiting inputs and return one event (a vector or scores) per input.

        Failed requests are reported by `failures`. During a `pause` nothing is computed.
        """
        if self.pause():
            return []
        flex = self._is_turn_of_flex()
        batcher = self._batchers[flex]
        began = time.monotonic()
        if self._cores is not None:
            self._cores.hold(not flex)
            self._waits_until = began + MAX_WAIT if flex else None
            short = flex and self._cores.are_people_served
            batcher.max_tokens = min(self._max_batch_tokens, SHORT_BATCH_TOKENS if short else CPU_BATCH_TOKENS)
        batch = batcher.next_batch()
        self._steps += 1
        self._tokens += sum(len(each.ids) for each in batch)
        self._step_tokens += len(batch) * len(batch[0].ids)
        events = self._events(batch)
        for each in batch:
            if not batcher.waits(each.request):
                self._requests.pop(each.request, None)
        if flex and self._cores is not None and self._cores.are_people_served:
            ended = time.monotonic()
            self._resumes_at = ended + min(PAUSE * (ended - began), MAX_PAUSE)
        self._hold_cores()
        return events

    def pause(self) -> float:
        """Return the seconds to wait for a command before the next step.

        A pause follows each batch of `flex` while people are served, and ends with the first request of another class.
        """
        return 0.0 if self._batchers[False] else max(0.0, self._resumes_at - time.monotonic())

    def has_work(self) -> bool:
        """Return whether inputs are waiting to be computed, so that `step` should be called."""
        return any(self._batchers.values())

    def load(self) -> EngineLoad:
        """Return the engine's load for the worker's metrics: waiting requests, computed tokens and steps."""
        return EngineLoad(
            running=sum(map(len, self._batchers.values())),
            prompt_tokens=self._tokens,
            steps=self._steps,
            step_tokens=self._step_tokens,
        )

    def failures(self) -> list[RequestFailed]:
        """Return and clear the list of requests that failed since the last call, each with its id and the reason."""
        failures, self._failures = self._failures, []
        return failures

    def _is_turn_of_flex(self) -> bool:
        """Return whether the next batch is of the class `flex`: no other waits, or it was left out too often."""
        deferred = bool(self._batchers[False]) and self._flex_deferrals < MAX_FLEX_DEFERRALS
        is_flex = bool(self._batchers[True]) and not deferred
        self._flex_deferrals = self._flex_deferrals + 1 if self._batchers[True] and not is_flex else 0
        return is_flex

    def _hold_cores(self) -> None:
        if self._cores is not None:
            self._cores.hold(bool(self._batchers[False]))

    def _give_way(self) -> None:
        if self._cores is not None and self._waits_until is not None:
            self._cores.give_way(self._waits_until)

    def _events(self, batch: Sequence[PendingInput]) -> list[E]:
        """Compute a batch; if it fails, compute each input alone, so that only the faulty requests fail."""
        known = [(self._requests[each.request], each) for each in batch if each.request in self._requests]
        if not known:
            return []
        try:
            results = self._compute(known)
        except torch.AcceleratorError:
            raise
        except Exception as error:
            if len(known) == 1:
                log.exception("request failed in the model", request=batch[0].request)
                self._fail(known[0][0].id, repr(error), in_step=True)
                return []
            log.warning("batch failed, trying each input alone", inputs=len(batch), error=repr(error))
            return [event for each in batch for event in self._events([each])]
        return [
            event
            for (request, pending), result in zip(known, results, strict=True)
            for event in self._finite(request, pending.index, result)
        ]

    def _finite(self, request: R, index: int, result: Tensor) -> list[E]:
        if not bool(result.isfinite().all()):
            self._fail(request.id, "its result is not finite")
            return []
        return [self._event(request, index, result)]

    def _fail(self, request: str, message: str, *, in_step: bool = False) -> None:
        self._failures.append(RequestFailed(request=request, message=message, in_step=in_step))
        self.abort(request)


def _layers(model: PreTrainedModel) -> Iterator[nn.Module]:
    """Yield the layers of a model: the modules of its lists that are as long as its configuration says."""
    for module in model.modules():
        if isinstance(module, nn.ModuleList) and len(module) == getattr(model.config, "num_hidden_layers", None):
            yield from module
