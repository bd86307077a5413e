"""Base class of the engines that compute requests' inputs in batches: embeddings, and scores of pairs of texts.

Cancellations take effect between batches, so a batch is no larger than the token budget.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import Generic, Protocol, TypeVar

import structlog
import torch
from torch import Tensor

from inference_worker.engine.input_batches.batching import Batcher, PendingInput
from inference_worker.engine_protocol import EngineLoad, Ready, RequestFailed
from inference_worker.errors import ModelError
from inference_worker.settings import EngineSettings

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
    def done(self) -> Sequence[int]:
        """Indexes of the inputs that an earlier attempt computed, and which are not computed again."""


R = TypeVar("R", bound=InputRequest)
E = TypeVar("E")


class InputEngine(ABC, Generic[R, E]):
    """An engine that computes queued inputs, one batch of similar lengths per step. Not thread-safe."""

    vocab_size: int
    """Size of the model's vocabulary."""

    def __init__(self, settings: EngineSettings, *, max_tokens: int, positions: int) -> None:
        """Create an engine for a model with `positions` positions, trained for inputs of `max_tokens` tokens.

        Raises:
            ModelError: `max_model_len` exceeds the model's positions.
        """
        self._settings = settings
        self._max_tokens = settings.max_model_len or max_tokens
        if self._max_tokens > positions:
            raise ModelError(f"max_model_len {self._max_tokens}: the model has {positions} positions")
        most = settings.max_num_batched_tokens
        self._batcher = Batcher(min(most, CPU_BATCH_TOKENS) if settings.device == "cpu" else most)
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
        self._batcher.add(request.id, request.token_ids, without=frozenset(request.done))

    def abort(self, request: str, choice: int | None = None) -> None:
        """Drop the waiting inputs of the request with the id `request`; unknown ids are ignored.

        `choice` is ignored too, because requests of embeddings and scores have no choices.
        """
        del choice
        self._batcher.drop(request)
        self._requests.pop(request, None)

    def step(self) -> list[E]:
        """Compute the next batch of waiting inputs and return one event (a vector or scores) per input.

        Failed requests are reported by `failures`.
        """
        batch = self._batcher.next_batch()
        self._steps += 1
        self._tokens += sum(len(each.ids) for each in batch)
        self._step_tokens += len(batch) * len(batch[0].ids)
        events = self._events(batch)
        for each in batch:
            if not self._batcher.waits(each.request):
                self._requests.pop(each.request, None)
        return events

    def has_work(self) -> bool:
        """Return whether inputs are waiting to be computed, so that `step` should be called."""
        return len(self._batcher) > 0

    def load(self) -> EngineLoad:
        """Return the engine's load for the worker's metrics: waiting requests, computed tokens and steps."""
        return EngineLoad(
            running=len(self._batcher), prompt_tokens=self._tokens, steps=self._steps, step_tokens=self._step_tokens
        )

    def failures(self) -> list[RequestFailed]:
        """Return and clear the list of requests that failed since the last call, each with its id and the reason."""
        failures, self._failures = self._failures, []
        return failures

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
