"""Engine of a reward model that scores answers: a decoder over a paged KV cache that reuses prefixes and scores.

Candidates of one conversation share the blocks of the conversation, and an answer that grew by a step costs the tokens
of that step: the blocks before are found by their hashes (Kwon et al. 2023, PagedAttention), and the scores in them in
the `ScoreBank`. Of inputs that begin alike, one computes a block and the others wait for it.
"""

from __future__ import annotations

from array import array
from collections import OrderedDict, deque
from collections.abc import Iterator
from dataclasses import dataclass, field

import structlog
import torch
from torch import nn

from inference_worker.engine.attention.registry import create_attention
from inference_worker.engine.attention_backend import AttentionBackend, StepAttention
from inference_worker.engine.batch import BlockCopy, ScheduledSequence
from inference_worker.engine.causal_lm import CausalLM
from inference_worker.engine.execution.cache_allocation import allocate_cache
from inference_worker.engine.execution.step_inputs import build_inputs
from inference_worker.engine.input_batches.engine import CPU_BATCH_TOKENS
from inference_worker.engine.kv_cache import KVCacheShape
from inference_worker.engine.scheduling.memory_pool import MemoryPool
from inference_worker.engine.scheduling.prefix_cache import hash_before
from inference_worker.engine.scoring.score_bank import ScoreBank, scored_beginning, scored_prefix
from inference_worker.engine.sequence import Sequence
from inference_worker.engine_protocol import EngineLoad, Ready, RequestFailed, ScoreEvent, ScoreInput, ScoreRequest
from inference_worker.errors import ModelError
from inference_worker.settings import EngineSettings
from router.messages import SamplingParams

log = structlog.get_logger(__name__)


@dataclass(eq=False)
class _Pending:
    """An input of a request, waiting or computed in part."""

    request: ScoreRequest
    index: int
    sequence: Sequence
    logits: dict[int, float] = field(default_factory=dict)
    """The logits that are known, by position."""

    @property
    def input(self) -> ScoreInput:
        """Token ids of this input and the positions at which it is scored."""
        return self.request.inputs[self.index]

    @property
    def due(self) -> list[int]:
        """Positions of this input at which a score is wanted and no logit is known yet, ascending."""
        return [each for each in self.input.positions if each not in self.logits]


@dataclass(frozen=True, slots=True)
class _ScheduledInput(ScheduledSequence):
    """One input's share of a step; `rows` are the tokens of it whose final hidden states are read, from 0."""

    rows: tuple[int, ...] = ()

    @property
    def sample_count(self) -> int:
        """Number of tokens to sample: always 0, because a reward model generates none."""
        return 0

    @property
    def states_needed(self) -> int:
        """Number of this input's tokens in the step whose final states are read: all from the first scored one on."""
        return self.count - self.rows[0] if self.rows else 0


class AnswerScoringEngine:
    """An engine that scores queued answers at their read positions with one reward model. Not thread-safe."""

    def __init__(
        self,
        model: CausalLM,
        head: nn.Module,
        settings: EngineSettings,
        dtype: torch.dtype,
        *,
        sigmoid: bool,
        pool: MemoryPool | None = None,
    ) -> None:
        """Create an engine and allocate its cache.

        Args:
            model: the decoder; its output head is not used.
            head: maps final hidden states [N, hidden], in float32, to logits [N].
            settings: limits, and the size of the cache.
            dtype: of the weights, and of the cache.
            sigmoid: whether the model's activation function is the sigmoid.
            pool: lends the blocks of the cache; `None`: the cache has memory of its own.

        Raises:
            ModelError: `max_model_len` exceeds the model's positions, or the cache does not fit the memory.
        """
        shape, device = model.shape, torch.device(settings.device)
        wanted = settings.max_model_len or shape.max_position
        if wanted > shape.max_position:
            raise ModelError(f"max_model_len {wanted}: the model has {shape.max_position} positions")
        cache = KVCacheShape(shape.layers, shape.kv_heads, shape.head_size, settings.block_size, dtype)
        self._bank = ScoreBank()
        memory = allocate_cache(settings, cache, wanted, self._bank, pool)
        self._max_tokens, self._blocks = memory.max_model_len, memory.blocks
        self._block_bytes = cache.bytes_per_block
        attention = create_attention(settings.attention, memory.cache, device, settings.instructions)
        self._attention: AttentionBackend = attention
        self._model, self._head, self._sigmoid = model, head, sigmoid
        self._settings, self._device, self._dtype = settings, device, dtype
        most = settings.max_num_batched_tokens
        self._budget = min(most, CPU_BATCH_TOKENS) if settings.device == "cpu" else most
        self._waiting: OrderedDict[str, deque[_Pending]] = OrderedDict()
        """Waiting inputs by request; the request whose turn it is comes first."""
        self._running: list[_Pending] = []
        self._copies: list[BlockCopy] = []
        """Blocks to copy before the next step is computed."""
        self._failures: list[RequestFailed] = []
        self._tokens = self._cached = self._steps = self._step_tokens = 0

    def ready(self) -> Ready:
        """Return the message that reports the loaded model and the engine's limits to the worker."""
        return Ready(
            max_model_len=self._max_tokens,
            vocab_size=self._model.shape.vocab_size,
            max_num_seqs=self._settings.max_num_seqs,
            kv_blocks=self._blocks.num_blocks,
            block_size=self._settings.block_size,
            kv_block_bytes=self._block_bytes,
            device=self._settings.device,
            dtype=str(self._dtype).removeprefix("torch."),
            attention=self._attention.name,
            eos_token_ids=[],
        )

    def add(self, request: ScoreRequest) -> None:
        """Queue the answers of a score request that are not scored yet; `request.done` lists the others.

        It replaces a request of the same id; `failures` reports one with an input that is empty or too long.
        """
        self.abort(request.id)
        if not all(0 < len(each.ids) <= self._max_tokens for each in request.inputs):
            self._fail(request.id, f"an input is empty or exceeds the context of {self._max_tokens} tokens")
            return
        done = frozenset(request.done)
        inputs = deque(
            _Pending(request, index, _sequence(request, index, each))
            for index, each in enumerate(request.inputs)
            if index not in done
        )
        if inputs:
            self._waiting[request.id] = inputs

    def abort(self, request: str, choice: int | None = None) -> None:
        """Drop the inputs of the request with the id `request` and free their KV blocks; unknown ids are ignored.

        `choice` is ignored too, because score requests have no choices.
        """
        del choice
        self._waiting.pop(request, None)
        for each in self._running:
            if each.request.id == request:
                self._blocks.release(each.sequence)
        self._running = [each for each in self._running if each.request.id != request]

    def has_work(self) -> bool:
        """Return whether inputs are waiting or computed in part, so that `step` should be called."""
        return bool(self._waiting or self._running)

    def failures(self) -> list[RequestFailed]:
        """Return and clear the list of requests that failed since the last call, each with its id and the reason."""
        failures, self._failures = self._failures, []
        return failures

    def load(self) -> EngineLoad:
        """Return the load for the worker's metrics: waiting inputs, KV blocks, computed tokens, prefix cache hits."""
        return EngineLoad(
            running=len(self._running),
            waiting=sum(map(len, self._waiting.values())),
            kv_blocks_used=self._blocks.used,
            kv_blocks_total=self._blocks.num_blocks,
            kv_blocks_peak=self._blocks.peak,
            prompt_tokens=self._tokens,
            prefix_cache_queries=self._tokens,
            prefix_cache_hits=self._cached,
            steps=self._steps,
            step_tokens=self._step_tokens,
        )

    def step(self) -> list[ScoreEvent]:
        """Compute the next tokens of the queued inputs, within the token budget of a step.

        Returns:
            One event with the scores for each input that is complete.
        """
        entries = self._plan()
        self._steps += 1
        self._step_tokens += sum(entry.count for _, entry in entries)
        self._copy_blocks()
        self._compute(entries)
        complete = [each for each in self._running if each.sequence.computed == len(each.input.ids)]
        for each in complete:
            self._blocks.release(each.sequence)
        self._running = [each for each in self._running if each not in complete]
        return [event for each in complete for event in self._event(each)]

    # --- Plan ---------------------------------------------------------------------------------------

    def _plan(self) -> list[tuple[_Pending, _ScheduledInput]]:
        """Plan the next tokens of running inputs, then admit waiting ones, within the budget."""
        budget = self._budget
        entries = []
        for pending in self._running:
            if budget:
                entries.append((pending, self._share(pending, budget)))
                budget -= entries[-1][1].count
        computing = {digest for each in self._running for digest in _unpublished(each.sequence)}
        admitted = self._admitted(computing)
        while budget and (new := next(admitted, None)) is not None:
            entries.append((new, self._share(new, budget)))
            budget -= entries[-1][1].count
        return entries

    def _admitted(self, computing: set[bytes]) -> Iterator[_Pending]:
        """Admit waiting inputs, by turns of the requests, and yield them; those that wait for a block of another stay.

        `computing` has the hashes of the blocks that running inputs will publish.
        """
        for request in list(self._waiting):
            while request in self._waiting and len(self._running) < self._settings.max_num_seqs:
                pending = self._waiting[request][0]
                sequence = pending.sequence
                size, positions = self._settings.block_size, pending.input.positions
                prefix, known = scored_prefix(self._bank, self._blocks.find_prefix(sequence), positions, size)
                following = sequence.block_hashes[len(prefix) : len(prefix) + 1]
                if not self._blocks.can_admit(sequence, prefix) or not computing.isdisjoint(following):
                    break
                source, count, more = scored_beginning(self._bank, sequence, len(prefix), positions, size)
                self._blocks.adopt(sequence, prefix)
                self._blocks.extend(sequence, len(pending.input.ids))
                if count:
                    sequence.computed += count
                    self._copies.append(BlockCopy(source, sequence.block_table[len(prefix)]))
                pending.logits = known | more
                computing.update(_unpublished(sequence))
                self._tokens += len(pending.input.ids)
                self._cached += sequence.computed
                self._running.append(pending)
                self._pop(request)
                yield pending

    def _pop(self, request: str) -> None:
        """Remove the first waiting input of a request, which has its next turn after the others."""
        inputs = self._waiting[request]
        inputs.popleft()
        if inputs:
            self._waiting.move_to_end(request)
        else:
            del self._waiting[request]

    def _share(self, pending: _Pending, budget: int) -> _ScheduledInput:
        start = pending.sequence.computed
        count = min(budget, len(pending.input.ids) - start)
        rows = tuple(each - start for each in pending.due if each < start + count)
        return _ScheduledInput(pending.sequence, start, count, rows=rows)

    # --- Compute ------------------------------------------------------------------------------------

    def _copy_blocks(self) -> None:
        """Copy the cached blocks whose first tokens admitted inputs reuse; all are read before any is written."""
        if self._copies:
            source, target = (
                torch.tensor(blocks, device=self._device)
                for blocks in zip(*((each.source, each.target) for each in self._copies), strict=True)
            )
            self._attention.cache.copy_blocks(source, target)
            self._copies.clear()

    def _compute(self, entries: list[tuple[_Pending, _ScheduledInput]]) -> None:
        """Compute a step; if it fails, compute each entry alone, so that only the faulty requests fail."""
        known = [(pending, entry) for pending, entry in entries if pending in self._running]
        if not known:
            return
        try:
            logits = self._logits([entry for _, entry in known])
        except torch.AcceleratorError:
            raise
        except Exception as error:
            if len(known) == 1:
                request = known[0][0].request.id
                log.exception("request failed in the model", request=request)
                self._fail(request, repr(error), in_step=True)
                return
            log.warning("step failed, trying each input alone", inputs=len(known), error=repr(error))
            for each in known:
                self._compute([each])
            return
        for pending, entry in known:
            self._commit(pending, entry, [next(logits) for _ in entry.rows])

    @torch.inference_mode()
    def _logits(self, entries: list[_ScheduledInput]) -> Iterator[float]:
        """Run the model over a step; return the logits of all rows, entry after entry."""
        inputs = build_inputs([*entries], self._settings.block_size, self._device)
        step = StepAttention(self._attention, inputs.attention)
        hidden = self._model.forward(inputs.token_ids, inputs.positions, step)
        first = 0
        rows: list[int] = []
        for entry in entries:
            rows += [first + row for row in entry.rows]
            first += entry.count
        read: list[float] = self._head(hidden[rows].float()).tolist() if rows else []
        return iter(read)

    def _commit(self, pending: _Pending, entry: _ScheduledInput, logits: list[float]) -> None:
        """Record the computed tokens and their logits, and publish full blocks with the logits in them."""
        sequence, size = pending.sequence, self._settings.block_size
        pending.logits.update((entry.start + row, logit) for row, logit in zip(entry.rows, logits, strict=True))
        sequence.computed = entry.start + entry.count
        self._blocks.publish(sequence)
        for index in range(entry.start // size, self._blocks.blocks_for(sequence.computed)):
            block, start, end = sequence.block_table[index], index * size, min(index * size + size, sequence.computed)
            if index < sequence.published and self._bank.match([sequence.block_hashes[index]]) != [block]:
                continue  # another block has the same tokens
            read = {each: logit for each, logit in pending.logits.items() if start <= each < end}
            self._bank.store(block, hash_before(sequence, index), sequence.token_ids[start:end], read)

    def _event(self, pending: _Pending) -> list[ScoreEvent]:
        """Return the event of a complete input; fail its request if a score is not finite."""
        logits = torch.tensor([pending.logits[each] for each in pending.input.positions])
        if not bool(logits.isfinite().all()):
            self._fail(pending.request.id, "its result is not finite")
            return []
        scores = logits.sigmoid() if self._sigmoid and not pending.request.raw else logits
        return [ScoreEvent(request=pending.request.id, index=pending.index, scores=scores.tolist())]

    def _fail(self, request: str, message: str, *, in_step: bool = False) -> None:
        self._failures.append(RequestFailed(request=request, message=message, in_step=in_step))
        self.abort(request)


def _sequence(request: ScoreRequest, index: int, each: ScoreInput) -> Sequence:
    """Return an input as a sequence of which all tokens are computed and none is generated."""
    return Sequence(
        request=request.id,
        choice=index,
        token_ids=array("q", each.ids),
        prompt_length=len(each.ids),
        sampling=SamplingParams(seed=0),
        max_tokens=1,
        salt=request.salt,
    )


def _unpublished(sequence: Sequence) -> list[bytes]:
    """Return the hashes of the blocks that a sequence will publish."""
    return sequence.block_hashes[sequence.published :]
