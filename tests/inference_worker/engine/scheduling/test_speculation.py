"""Tests of speculation: it changes the number of steps of an output and nothing else.

The model here reads its context from a cache of token slots, through the block tables, as a real one does. So a slot
that was not overwritten, a shared one that was, or a block published with wrong drafts shows as a wrong context.
"""

from __future__ import annotations

from array import array
from typing import Any

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from inference_worker.engine.batch import Batch, ScheduledSequence, StepResult
from inference_worker.engine.sampling.sampler import Sampler
from inference_worker.engine.scheduling.block_manager import BlockManager
from inference_worker.engine.scheduling.limits import EngineLimits
from inference_worker.engine.scheduling.prefix_cache import NoPrefixCache, PrefixCache
from inference_worker.engine.scheduling.scheduler import Scheduler
from inference_worker.engine.scheduling.speculation import (
    FREE_ROWS,
    LookupSpeculation,
    NoSpeculation,
    Speculation,
    StepCost,
    append_accepted,
)
from inference_worker.engine.sequence import Sequence
from inference_worker.engine_protocol import GenerationRequest, PositionLogprobs
from router.messages import SamplingParams
from tests.inference_worker.generation import Choice, take

VOCAB = 8
EOS = 2
CONTEXT = 72


class SlotModel:
    """Scores follow from the last two tokens, so outputs repeat themselves; the cache holds token ids."""

    def __init__(self, blocks: int, block_size: int) -> None:
        self.block_size = block_size
        self.slots = [-1] * (blocks * block_size)
        self.sampler = Sampler()
        self.scores = torch.randn(VOCAB, VOCAB, VOCAB, generator=torch.Generator().manual_seed(1)) * 2

    def execute(self, batch: Batch) -> StepResult:
        size = self.block_size
        copied = [self.slots[copy.source * size : (copy.source + 1) * size] for copy in batch.copies]
        for copy, content in zip(batch.copies, copied, strict=True):
            self.slots[copy.target * size : (copy.target + 1) * size] = content
        result = StepResult()
        for entry in batch.entries:
            tokens, logprobs = self.compute(entry)
            result.token_ids.append(tokens)
            result.logprobs.append(logprobs)
        return result

    def compute(self, entry: ScheduledSequence) -> tuple[list[int], list[PositionLogprobs] | None]:
        table, size = entry.sequence.block_table, self.block_size
        slots = [table[at // size] * size + at % size for at in range(entry.start + entry.count)]
        for at, token in enumerate(entry.token_ids, entry.start):
            self.slots[slots[at]] = token
        context = [self.slots[slot] for slot in slots]
        known = entry.sequence.token_ids[: len(context)].tolist()
        assert context == known + list(entry.drafts), "the cache does not hold the sequence"
        if not entry.sample_count:
            return [], None
        rows = [
            self.scores[context[end - 2], context[end - 1]]
            for end in range(len(context) - entry.sample_count + 1, len(context) + 1)
        ]
        tokens, logprobs = self.sampler.sample(torch.stack(rows), entry.sampling_contexts())
        return tokens, [one for one in logprobs if one is not None] or None


def run(
    requests: list[GenerationRequest],
    speculation: Speculation,
    blocks: int,
    block_size: int,
    seqs: int,
    budget: int,
    cached: bool,
) -> tuple[dict[tuple[str, int], Choice], Scheduler]:
    cache = PrefixCache() if cached else NoPrefixCache()
    limits = EngineLimits(min(CONTEXT, blocks * block_size), seqs, budget, VOCAB, frozenset({EOS}))
    scheduler = Scheduler(limits, BlockManager(blocks, block_size, cache), speculation)
    model, outcome = SlotModel(blocks, block_size), {}
    for one in requests:
        scheduler.add(one)
    for _ in range(20_000):
        if not scheduler.has_work():
            break
        batch = scheduler.schedule()
        assert sum(entry.count for entry in batch.entries) <= budget
        take(outcome, scheduler.commit(batch, model.execute(batch)))
        for sequence in scheduler.running:
            assert len(sequence.block_table) == scheduler.blocks.blocks_for(sequence.computed)
    assert not scheduler.has_work()
    assert scheduler.take_failures() == []
    return outcome, scheduler


sampling: st.SearchStrategy[dict[str, Any]] = st.fixed_dictionaries(
    {
        "seed": st.integers(0, 2**64 - 1),
        "temperature": st.sampled_from([0.0, 0.2, 1.0]),
        "max_tokens": st.integers(1, 40),
        "min_tokens": st.sampled_from([0, 0, 5]),
        "ignore_eos": st.booleans(),
        "stop_token_ids": st.sampled_from([[], [3], [4, 5]]),
        "top_p": st.sampled_from([1.0, 0.8]),
        "frequency_penalty": st.sampled_from([0.0, 0.0, 0.3]),
        "presence_penalty": st.sampled_from([0.0, 0.5]),
        "repetition_penalty": st.sampled_from([1.0, 1.2]),
        "logit_bias": st.sampled_from([{}, {6: 3.0}]),
        "logprobs": st.sampled_from([None, 1]),
    }
)
requests = st.lists(
    st.tuples(st.lists(st.integers(0, VOCAB - 1), min_size=1, max_size=30), st.integers(1, 3), sampling),
    min_size=1,
    max_size=5,
).map(
    lambda wanted: [
        GenerationRequest(id=str(i), prompt_ids=prompt, n=n, sampling=SamplingParams(**params))
        for i, (prompt, n, params) in enumerate(wanted)
    ]
)


@settings(max_examples=30, deadline=None)
@given(
    requests,
    st.sampled_from([1, 3, 4, 16]),
    st.integers(0, 12),
    st.integers(1, 6),
    st.integers(1, 40),
    st.booleans(),
    st.sampled_from([StepCost(2, 30), FREE_ROWS]),
)
def test_outputs_are_the_same_with_and_without(
    wanted: list[GenerationRequest], block_size: int, spare: int, seqs: int, budget: int, cached: bool, cost: StepCost
) -> None:
    plan = (-(-CONTEXT // block_size) + spare, block_size, seqs, budget, cached)
    plain, _ = run(wanted, NoSpeculation(), *plan)
    fast, scheduler = run(wanted, LookupSpeculation(cost), *plan)
    for key, choice in plain.items():
        other = fast[key]
        assert (other.ids, other.reason, other.stop_token) == (choice.ids, choice.reason, choice.stop_token)
        assert other.logprobs == choice.logprobs
    load = scheduler.load()
    assert load.generation_tokens == sum(len(choice.ids) for choice in plain.values())
    assert load.accepted_tokens <= load.draft_tokens


def repeating(name: str = "r", **changes: Any) -> GenerationRequest:
    """Scores token 6 so high that it is always sampled."""
    params = {"seed": 1, "temperature": 0.0, "max_tokens": 30, "logit_bias": {6: 50.0}, **changes}
    return GenerationRequest(id=name, prompt_ids=[6, 6, 6, 6], sampling=SamplingParams(**params))


def test_repetitive_output_takes_few_steps() -> None:
    outcome, scheduler = run([repeating()], LookupSpeculation(FREE_ROWS), 18, 4, 4, 32, True)
    assert outcome["r", 0].ids == [6] * 30
    load = scheduler.load()
    assert (load.steps, load.draft_tokens, load.accepted_tokens) == (3, 27, 27)


def test_a_fuller_step_needs_more_probable_drafts() -> None:
    def drafted(sequences: int) -> float:
        wanted = [repeating(str(i)) for i in range(sequences)]
        _, scheduler = run(wanted, LookupSpeculation(StepCost(2, 30)), 200, 4, 64, 512, True)
        return scheduler.load().draft_tokens / sequences

    assert drafted(1) > drafted(4) > drafted(16) > drafted(30)


def test_the_likeliest_drafts_of_all_sequences_get_the_cheap_rows() -> None:
    newcomer, regular, stranger = decoding([1, 2, 3, 9, 1, 2]), decoding([5, 6, 7, 8] * 8), decoding([1, 2, 3])

    def drafts(cost: StepCost, rows: int = 3, budget: int = 100) -> dict[int, list[int]]:
        speculation = LookupSpeculation(cost)
        for known in range(8, 33):
            speculation.drafts([decoding([5, 6, 7, 8] * 8, known, regular.sequence)], 1, 100)
        return speculation.drafts([newcomer, regular, stranger], rows, budget)

    assert drafts(StepCost(6, 7)) == {1: [5, 6, 7, 8]}
    assert drafts(StepCost(6, 7), budget=1) == {1: [5]}
    assert drafts(StepCost(6, 7), rows=7) == {}
    assert drafts(StepCost(0.01, 7)) == {}
    plenty = drafts(StepCost(1000, 24))
    assert plenty[0] == [3, 9, 1, 2, 3]
    assert len(plenty[1]) == 16

    regular.sequence.flex = True
    assert drafts(StepCost(1000, 24), budget=5) == {0: [3, 9, 1, 2, 3]}
    assert drafts(StepCost(6, 7)) == {0: [3]}


def decoding(ids: list[int], known: int | None = None, sequence: Sequence | None = None) -> ScheduledSequence:
    """Return an entry whose sequence has the first of `ids`, by default all, and is new by default."""
    one = sequence or Sequence("r", 0, array("q", ids), 1, SamplingParams(seed=0), 100)
    one.token_ids = array("q", ids[:known])
    return ScheduledSequence(one, len(one.token_ids) - 1, 1)


def test_drafts_leave_the_budget_of_prefills() -> None:
    limits = EngineLimits(CONTEXT, 4, 16, VOCAB, frozenset({EOS}))
    scheduler = Scheduler(limits, BlockManager(64, 4, PrefixCache()), LookupSpeculation(FREE_ROWS))
    model = SlotModel(64, 4)
    scheduler.add(repeating("a"))
    scheduler.commit(batch := scheduler.schedule(), model.execute(batch))
    scheduler.add(GenerationRequest(id="b", prompt_ids=[1, 3] * 11, sampling=SamplingParams(seed=0, max_tokens=1)))
    plans = []
    for _ in range(2):
        batch = scheduler.schedule()
        plans.append([(entry.sequence.request, entry.count, len(entry.drafts)) for entry in batch.entries])
        scheduler.commit(batch, model.execute(batch))
    assert plans == [[("a", 1, 0), ("b", 15, 0)], [("a", 9, 8), ("b", 7, 0)]]


def test_drafts_preempt_no_sequence() -> None:
    wanted = [repeating(str(i), max_tokens=28) for i in range(2)]
    _, plain = run(wanted, NoSpeculation(), 18, 4, 2, 64, False)
    _, fast = run(wanted, LookupSpeculation(FREE_ROWS), 18, 4, 2, 64, False)
    assert (plain.load().preemptions, fast.load().preemptions) == (0, 0)
    assert fast.load().steps < plain.load().steps


@pytest.mark.parametrize(
    ("tokens", "drafts", "kept"),
    [
        ([], (), 0),
        ([5], (), 1),
        ([5, 6, 7], (5, 6), 3),
        ([5, 6, 7], (5, 1), 2),
        ([5, 6, 7], (1, 6), 1),
        ([5, EOS, 7], (5, EOS), 2),
        ([5, 6, 7, 4, 3], (5, 6, 7, 4), 4),
    ],
)
def test_acceptance_ends_at_a_wrong_draft_or_at_the_end(tokens: list[int], drafts: tuple[int, ...], kept: int) -> None:
    one = Sequence("r", 0, array("q", [1]), 1, SamplingParams(seed=0), 4, frozenset({EOS}))
    assert append_accepted(one, tokens, drafts) == kept
    assert one.generated_ids().tolist() == tokens[:kept]
