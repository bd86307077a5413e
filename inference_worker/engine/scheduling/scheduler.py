"""Continuous-batching scheduler of the engine: plans which tokens each step computes, and commits step outcomes.

Continuous batching (Yu et al. 2022, Orca) without prefill and decode phases: every sequence has known and computed
tokens, and a step computes some of the difference within a token budget. Running sequences come first, then waiting
ones are admitted. Where it pays (`EngineLimits.priority_prefill_tokens`), short prompts do not wait for the decodes of
other sequences: decodes are deferred by one step, at most every second time, or interrupted between two layers. When
blocks run out, the sequence that was admitted last is preempted: it frees its blocks, keeps its tokens, waits at the
front of the queue and is recomputed.

Sequences of the service class `flex` give way to all others within a step: they are planned, admitted and recomputed
last, are preempted for a slot or blocks that another needs, and are left out of steps that compute another's prompt.
Where each row of a step takes time they have steps of their own, between whose layers those of others are computed.
"""

from __future__ import annotations

from collections.abc import Sequence as Rows

from inference_worker.engine.batch import Batch, ScheduledSequence, StepResult
from inference_worker.engine.scheduling.block_manager import BlockManager
from inference_worker.engine.scheduling.counters import Counters, used_token_slots
from inference_worker.engine.scheduling.limits import FLEX_RESERVE, EngineLimits
from inference_worker.engine.scheduling.new_requests import rejection_reason, to_sequences
from inference_worker.engine.scheduling.plan import Plan
from inference_worker.engine.scheduling.prefill_priority import PrefillPriority
from inference_worker.engine.scheduling.speculation import Speculation, append_accepted
from inference_worker.engine.scheduling.stop_conditions import append_decoded, finish_reason
from inference_worker.engine.scheduling.token_events import token_event
from inference_worker.engine.scheduling.waiting_queue import WaitingQueue
from inference_worker.engine.sequence import Sequence
from inference_worker.engine_protocol import (
    EngineLoad,
    GenerationRequest,
    PromptScores,
    RequestFailed,
    TokenEvent,
)
from inference_worker.structured.matcher import Matcher


class Scheduler:
    """Plans which tokens of which sequences each step computes, and applies its outcome: tokens, ends, KV blocks."""

    def __init__(self, limits: EngineLimits, blocks: BlockManager, speculation: Speculation) -> None:
        """Raises `ValueError` if a sequence of the full context length does not fit the block pool."""
        if blocks.blocks_for(limits.max_model_len) > blocks.num_blocks:
            raise ValueError(f"{blocks.num_blocks} blocks can't hold a context of {limits.max_model_len} tokens")
        self.limits = limits
        self.blocks = blocks
        self.speculation = speculation
        self.waiting = WaitingQueue()
        self.running: list[Sequence] = []
        """Admitted sequences in order of admission, those of the class `flex` behind all others."""
        self._choices: dict[str, list[Sequence]] = {}
        self._ended_unscheduled: list[Sequence] = []
        self._failures: list[RequestFailed] = []
        self._counters = Counters()
        self._priority = PrefillPriority(limits.priority_prefill_tokens)

    # --- Requests -----------------------------------------------------------------------------------

    def add(self, request: GenerationRequest, matchers: Rows[Matcher] = ()) -> None:
        """Queue a generation request; it replaces a request of the same id.

        A request that can never run is recorded for `take_failures`. With a grammar, `matchers` has the state of each
        choice after its delivered tokens.
        """
        self.abort(request.id)
        reason = rejection_reason(request, self.limits)
        if reason is not None:
            self._failures.append(RequestFailed(request=request.id, message=reason))
            return
        choices = to_sequences(request, self.limits, matchers)
        self._choices[request.id] = choices[:]
        due = [sequence for sequence in choices if not finish_reason(sequence)]
        due = due or [sequence for sequence in choices[:1] if sequence.needs_prompt_scores]
        for sequence in choices:
            if sequence not in due:
                sequence.scored = sequence.prompt_length  # another choice reports the prompt's log probabilities
                self._ended_unscheduled.append(sequence)
        if due:
            due[0].siblings = due[1:]
            self.waiting.push(due[0])

    def abort(self, request: str, choice: int | None = None) -> None:
        """Drop request `request`, or only its choice `choice`, and free its KV blocks; unknown ids are ignored."""
        dropped = [s for s in self._choices.get(request, ()) if choice is None or s.choice == choice]
        for sequence in dropped:
            if sequence.siblings:
                self._promote_sibling(sequence)
            self._finish(sequence)
            self.waiting.discard(sequence)
        for left in self._choices.get(request, ()):
            left.siblings = [s for s in left.siblings if not s.ended]
        if dropped:
            self._ended_unscheduled = [s for s in self._ended_unscheduled if not s.ended]
            self.running = [s for s in self.running if not s.ended]

    def has(self, request: str) -> bool:
        """Return whether the request with the id `request` was added and has neither ended nor been aborted."""
        return request in self._choices

    @property
    def has_non_flex(self) -> bool:
        """Whether sequences of other classes than `flex` wait or are running."""
        return not self.waiting.only_flex or bool(self.running and not self.running[0].flex)

    @property
    def spares_cores(self) -> bool:
        """Whether `flex` alone waits or runs, and sequences of other classes came lately: its steps are short then."""
        return self._priority.non_flex_came_lately and not self.has_non_flex

    def has_work(self) -> bool:
        """Return whether any request was added that has neither ended nor been aborted."""
        return bool(self._choices)

    def take_failures(self) -> list[RequestFailed]:
        """Return and clear the list of requests that failed since the last call, each with its id and the reason."""
        failures, self._failures = self._failures, []
        return failures

    def load(self) -> EngineLoad:
        """Return the load for the worker's metrics: totals since start-up, current numbers of sequences and blocks."""
        live = sum(map(len, self._choices.values()))
        return self._counters.to_load(
            running=len(self.running),
            waiting=live - len(self.running),
            kv_blocks_used=self.blocks.used,
            kv_blocks_total=self.blocks.num_blocks,
            kv_blocks_peak=self.blocks.peak,
            kv_slots_held=self.blocks.used * self.blocks.block_size,
            kv_tokens_held=used_token_slots(self.running, self.blocks),
        )

    # --- Plan ---------------------------------------------------------------------------------------

    def schedule(self) -> Batch:
        """Plan the next step and return it as a batch: admits and preempts sequences and allocates KV blocks as needed.

        Call `commit` with the batch's result before the next step is planned.
        """
        plan = Plan(budget=self.limits.max_num_batched_tokens)
        self._priority.begin_step()
        self._plan_running(plan, flex=False)
        self._admit_non_flex(plan)
        plan.budget = self._priority.flex_budget(plan.budget)
        self._plan_running(plan)
        while plan.budget and not (plan.blocks_lack or plan.gave_way) and self.waiting.only_flex and self._admit(plan):
            self._plan_running(plan)
        if not plan.blocks_lack:
            self._prioritise_prefill(plan)
            self._speculate(plan)
        return Batch(plan.entries, plan.copies, self._allowed_steps(plan))

    def schedule_prefill_interrupt(self) -> Batch | None:
        """Plan a step that prefills the next waiting prompt alone, to run between two layers of the current step.

        Returns `None` unless the current step only decodes, the prompt is short and not of the class `flex`, and its
        blocks are free. The batch must be committed before the current step, and no sequence of either may be aborted
        before.
        """
        sequence = self.waiting.peek()
        if sequence is None or sequence.flex or not self._priority.may_interrupt(sequence.target):
            return None
        plan = Plan(self.limits.max_num_batched_tokens, position=self._place(sequence))
        if not self._admit():
            return None
        self._priority.record_interrupt()
        self._plan_running(plan, flex=False)
        return Batch(plan.entries, plan.copies)

    def schedule_beside_flex(self) -> Batch | None:
        """Plan a step of the sequences of other classes, to run between two layers of the current step of `flex`.

        Nothing is preempted for it. Returns `None` if there is nothing to compute, or its blocks are not free. As that
        of `schedule_prefill_interrupt`, the batch must be committed before the current step.
        """
        plan = Plan(budget=self.limits.max_num_batched_tokens, preempts=False)
        self._plan_running(plan, flex=False)
        self._admit_non_flex(plan)
        if not plan.entries:
            return None
        self._prioritise_prefill(plan)
        self._speculate(plan)
        return Batch(plan.entries, plan.copies)

    def _admit_non_flex(self, plan: Plan) -> None:
        """Admit waiting sequences of other classes than `flex`, and plan their tokens."""
        while plan.budget and not plan.blocks_lack and not self.waiting.only_flex and self._admit(plan):
            self._plan_running(plan, flex=False)

    def _plan_running(self, plan: Plan, *, flex: bool = True) -> None:
        """Plan the due tokens of the running sequences from `plan.position` on, within the budget.

        Without `flex` up to the first sequence of the class `flex`.
        """
        while plan.budget and plan.position < len(self.running) and (flex or not self.running[plan.position].flex):
            sequence = self.running[plan.position]
            count = min(sequence.target - sequence.computed, plan.budget)
            end = sequence.computed + count
            if not self._preempt_for(plan, sequence, end):
                return
            plan.copies += self.blocks.extend(sequence, end)
            plan.entries.append(ScheduledSequence(sequence, sequence.computed, count))
            plan.budget -= count
            plan.position += 1

    def _preempt_for(self, plan: Plan, sequence: Sequence, end: int) -> bool:
        """Preempt the latest running sequences until `sequence` fits; return False if it doesn't, or was preempted."""
        while not self.blocks.can_extend(sequence, end):
            if self._free_reserved_blocks():
                continue
            plan.blocks_lack = True
            if not plan.preempts or self._preempt_last() is sequence:
                return False
        return True

    def _prioritise_prefill(self, plan: Plan) -> None:
        """Defer entries of the plan to the next step for the sake of prompts; their blocks stay allocated."""
        planned, plan.entries = plan.entries, self._priority.kept(plan.entries)
        plan.budget += sum(entry.count for entry in planned) - sum(entry.count for entry in plan.entries)

    def _speculate(self, plan: Plan) -> None:
        """Add draft tokens within the remaining token budget and blocks."""
        rows = sum(entry.count for entry in plan.entries)
        for index, drafts in self.speculation.drafts(plan.entries, rows, plan.budget).items():
            sequence, start = plan.entries[index].sequence, plan.entries[index].start
            count = 1 + len(drafts)
            if self.blocks.can_extend(sequence, start + count):
                # `_plan_running` made the block that it writes to first its own, so there is nothing to copy.
                self.blocks.extend(sequence, start + count)
                plan.entries[index] = ScheduledSequence(sequence, start, count, tuple(drafts))

    def _allowed_steps(self, plan: Plan) -> int:
        """Return how many steps the batch may run: several if it is pure decode and the blocks suffice for all."""
        steps, ends = plan.decode_steps(self.limits.max_decode_steps)
        if steps == 1 or not self.blocks.can_extend_all([entry.sequence for entry in plan.entries], ends):
            return 1
        for entry, end in zip(plan.entries, ends, strict=True):
            self.blocks.extend(entry.sequence, end)
        return steps

    def _admit(self, plan: Plan | None = None) -> bool:
        """Admit the next waiting sequence if there is a slot for it and blocks for all its known tokens.

        In a `plan` that preempts, sequences of the class `flex` are preempted for another one.
        """
        sequence = self.waiting.peek()
        if sequence is None:
            return False
        while not self._has_slot(sequence):
            if not self._preempt_flex(plan, sequence):
                return False
        prefix = self.blocks.find_prefix(sequence)
        while not self.blocks.can_admit(sequence, prefix):
            if not (self._free_reserved_blocks() or self._preempt_flex(plan, sequence)):
                return False
        self.running.insert(self._place(sequence), self.waiting.pop())
        self.blocks.adopt(sequence, prefix)
        if not sequence.admitted:
            self._counters.count_admission(sequence)
            self.waiting.charge(sequence, prompt=sequence.prompt_length - sequence.cached_tokens)
        self._fork_siblings(sequence)
        return True

    def _has_slot(self, sequence: Sequence) -> bool:
        slots = self.limits.max_num_seqs
        return len(self.running) < (slots - slots // FLEX_RESERVE if sequence.flex else slots)

    def _place(self, sequence: Sequence) -> int:
        """Return the index in `running` at which a new sequence is inserted: the end of those of its group."""
        if sequence.flex:
            return len(self.running)
        return next((index for index, each in enumerate(self.running) if each.flex), len(self.running))

    def _preempt_flex(self, plan: Plan | None, sequence: Sequence) -> bool:
        """Preempt the running sequence of the class `flex` that was admitted last, if `sequence` is of another class.

        Return whether there was one. Only a `plan` that preempts, and has not planned `flex`, allows it.
        """
        if plan is None or not plan.preempts or sequence.flex or not self.running or not self.running[-1].flex:
            return False
        self._preempt_last()
        plan.gave_way = True
        return True

    def _preempt_last(self) -> Sequence:
        victim = self.running.pop()
        self.blocks.release(victim)
        self.waiting.push_front(victim)
        self._counters.preemptions += 1
        return victim

    def _free_reserved_blocks(self) -> bool:
        """Free the blocks that running sequences hold for further decode steps; return whether there were any."""
        if self.limits.max_decode_steps == 1:
            return False
        used = self.blocks.used
        for sequence in self.running:
            self.blocks.trim(sequence, sequence.target)
        return self.blocks.used < used

    def _fork_siblings(self, leader: Sequence) -> None:
        """Fork the siblings once the prompt but its last token is computed; those beyond the free slots wait."""
        if not leader.siblings or leader.computed < leader.target:
            return
        siblings, leader.siblings = leader.siblings, []
        slots = self.limits.max_num_seqs - len(self.running)
        for sibling in siblings:
            sibling.inherit_admission(leader)
        for sibling in siblings[:slots]:
            self.blocks.fork(leader, sibling)
            self.running.insert(self._place(sibling), sibling)
        for sibling in reversed(siblings[slots:]):
            self.waiting.push_front(sibling)

    def _promote_sibling(self, leader: Sequence) -> None:
        """Queue the next sibling in place of a leader dropped before the fork; the prefix cache has its prompt."""
        successor, *rest = leader.siblings
        leader.siblings, successor.siblings = [], rest
        successor.inherit_admission(leader)
        self.waiting.push_front(successor)

    # --- Commit -------------------------------------------------------------------------------------

    def commit(self, batch: Batch, result: StepResult) -> list[TokenEvent]:
        """Apply the result of a computed batch: append its tokens, end choices, free the blocks of these.

        Returns:
            The events (new tokens, ends of choices) to report to the worker.
        """
        self._counters.count_step(batch, len(result.token_ids[0]) if batch.steps > 1 else 1)
        for request in result.failed:
            self._fail(RequestFailed(request=request, message="the model could not compute it", in_step=True))
        events = self._take_unscheduled_ends()
        for entry, tokens, logprobs in zip(batch.entries, result.token_ids, result.logprobs, strict=True):
            sequence = entry.sequence
            if not sequence.ended:
                scores = self._take_prompt_scores(entry, result)
                kept = self._append_tokens(entry, tokens, batch.steps)
                if sequence.matcher is not None and sequence.matcher.error is not None:
                    reason = sequence.matcher.error
                    self._fail(RequestFailed(request=sequence.request, message=reason, in_grammar=True))
                elif kept or scores:
                    ends = bool(kept) or not sequence.needs_prompt_scores
                    event = token_event(sequence, tokens[:kept], logprobs and logprobs[:kept], scores, ends=ends)
                    events.append(self._reported(event, sequence))
        self.running = [sequence for sequence in self.running if not sequence.ended]
        return events

    def _take_unscheduled_ends(self) -> list[TokenEvent]:
        """Return end events of choices with nothing to generate whose prompt log probabilities, if any, are done."""
        if not self._ended_unscheduled:
            return []
        due = [
            s
            for s in self._ended_unscheduled
            if not any(other.needs_prompt_scores for other in self._choices[s.request])
        ]
        self._ended_unscheduled = [s for s in self._ended_unscheduled if s not in due]
        return [self._reported(token_event(sequence, [], ends=True), sequence) for sequence in due]

    def _take_prompt_scores(self, entry: ScheduledSequence, result: StepResult) -> PromptScores | None:
        """Return the prompt log probabilities that this step yielded for the entry, and record them as reported."""
        scored = entry.scored
        if not scored:
            return None
        entry.sequence.scored = scored.stop
        return result.scores.get(entry.sequence.request)

    def _append_tokens(self, entry: ScheduledSequence, tokens: list[int], steps: int) -> int:
        """Record the computed tokens and append the accepted ones; return how many were appended."""
        sequence = entry.sequence
        kept = append_decoded(sequence, tokens) if steps > 1 else append_accepted(sequence, tokens, entry.drafts)
        # Keys and values after a rejected draft, or after the end, are invalid and will be overwritten.
        sequence.computed = len(sequence.token_ids) - 1 if kept else entry.start + entry.count
        self.blocks.publish(sequence)
        self._fork_siblings(sequence)
        if entry.drafts:
            self.blocks.trim(sequence, sequence.computed)
        self._counters.count_output(drafted=len(entry.drafts), generated=kept)
        self.waiting.charge(sequence, output=kept)
        return kept

    def _fail(self, failure: RequestFailed) -> None:
        self._failures.append(failure)
        self.abort(failure.request)

    def _reported(self, event: TokenEvent, sequence: Sequence) -> TokenEvent:
        """Return the event of a sequence, which is finished if the event ends it."""
        if event.finish_reason:
            self._finish(sequence)
        return event

    def _finish(self, sequence: Sequence) -> None:
        """Release a sequence's state; the caller removes it from `running` and `waiting`."""
        sequence.ended = True
        self.speculation.forget(sequence)
        self.blocks.release(sequence)
        left = [s for s in self._choices.pop(sequence.request) if s is not sequence]
        if left:
            self._choices[sequence.request] = left
