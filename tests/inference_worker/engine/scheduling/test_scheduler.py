"""Tests of the scheduler with a runner that samples tokens without a model."""

from __future__ import annotations

from collections import Counter

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec.structs import replace

from inference_worker.engine.batch import Batch, StepResult
from inference_worker.engine.scheduling.block_manager import BlockManager
from inference_worker.engine.scheduling.limits import FLEX_STEP_TOKENS, EngineLimits
from inference_worker.engine.scheduling.prefix_cache import NoPrefixCache, PrefixCache
from inference_worker.engine.scheduling.scheduler import Scheduler
from inference_worker.engine.scheduling.speculation import NoSpeculation, Speculation
from inference_worker.engine_protocol import GenerationRequest, TokenEvent
from inference_worker.reasoning import ReasoningTokens
from router.messages import SamplingParams

EOS = 2


def make(
    blocks: int = 64,
    block_size: int = 4,
    seqs: int = 8,
    budget: int = 32,
    cached: bool = True,
    speculation: Speculation | None = None,
    max_decode_steps: int = 1,
    ahead: range = range(0),
) -> Scheduler:
    limits = EngineLimits(min(64, blocks * block_size), seqs, budget, 50, frozenset({EOS}), max_decode_steps, ahead)
    cache = PrefixCache() if cached else NoPrefixCache()
    return Scheduler(limits, BlockManager(blocks, block_size, cache), speculation or NoSpeculation())


def request(name: str, prompt: int, most: int = 4, n: int = 1, first: int = 5) -> GenerationRequest:
    sampling = SamplingParams(seed=0, max_tokens=most)
    return GenerationRequest(id=name, prompt_ids=[first] * prompt, sampling=sampling, n=n)


def compute(batch: Batch) -> StepResult:
    """Sample token 7 everywhere; of several allowed steps, compute one less."""
    drawn = [[7] * (entry.sample_count if batch.steps == 1 else batch.steps - 1) for entry in batch.entries]
    return StepResult(drawn, [None] * len(drawn))


def step(scheduler: Scheduler) -> list[TokenEvent]:
    batch = scheduler.schedule()
    check(scheduler, batch)
    return scheduler.commit(batch, compute(batch))


def check(scheduler: Scheduler, batch: Batch) -> None:
    """Check the invariants of every plan."""
    limits, blocks = scheduler.limits, scheduler.blocks
    assert sum(entry.count for entry in batch.entries) <= limits.max_num_batched_tokens
    assert len(scheduler.running) <= limits.max_num_seqs
    assert len({id(entry.sequence) for entry in batch.entries}) == len(batch.entries)
    holders = Counter(block for sequence in scheduler.running for block in sequence.block_table)
    assert [holders[block] for block in range(blocks.num_blocks)] == blocks._references
    assert blocks.used == len(holders)
    for entry in batch.entries:
        assert entry.count > 0
        assert entry.start == entry.sequence.computed
        table = entry.sequence.block_table
        end = entry.start + entry.count
        if batch.steps > 1:
            last = entry.sequence.prompt_length + entry.sequence.max_tokens - 1
            end = min(entry.start + batch.steps, last)
        assert len(table) == blocks.blocks_for(end)
        for position in range(entry.start, end):
            assert holders[table[position // blocks.block_size]] == 1, "writes to a shared block"


def test_the_budget_is_shared_by_chunks_and_single_tokens() -> None:
    scheduler = make(budget=10)
    scheduler.add(request("a", 3))
    step(scheduler)
    scheduler.add(request("b", 15, first=6))
    plan = []
    for _ in range(2):
        batch = scheduler.schedule()
        plan.append([(entry.sequence.request, entry.start, entry.count) for entry in batch.entries])
        scheduler.commit(batch, compute(batch))
    assert plan == [[("a", 3, 1), ("b", 0, 9)], [("a", 4, 1), ("b", 9, 6)]]


def test_the_last_admitted_is_preempted_and_resumed_first() -> None:
    scheduler = make(blocks=4, cached=False)
    for name in "abc":
        scheduler.add(request(name, 4 if name == "c" else 5, most=10))
    step(scheduler)  # a and b hold all four blocks, c waits
    assert [s.request for s in scheduler.running] == ["a", "b"]
    while not scheduler.load().preemptions:
        step(scheduler)
    assert [s.request for s in scheduler.running] == ["a"]
    victim = scheduler.waiting.peek()
    assert victim is not None
    assert (victim.request, victim.computed, len(victim.block_table)) == ("b", 0, 0)
    assert victim.generated > 0
    while scheduler.has_work():
        step(scheduler)


def test_a_whole_prefix_hit_still_computes_the_last_token() -> None:
    scheduler = make()
    for name in "ab":
        scheduler.add(request(name, 8, most=1))
        batch = scheduler.schedule()
        if name == "b":
            assert [(entry.start, entry.count) for entry in batch.entries] == [(4, 4)]
        (event,) = scheduler.commit(batch, compute(batch))
        assert event.cached_tokens == (4 if name == "b" else 0)


def test_cached_blocks_are_evicted_least_recently_used_first() -> None:
    scheduler = make(blocks=4, block_size=4)
    for first in (5, 6, 5):  # 5 is used again: 6 is the older one
        scheduler.add(request(f"r{first}", 5, most=1, first=first))
        step(scheduler)
    scheduler.add(request("new", 9, most=1, first=8))  # takes the two plain blocks and evicts one
    step(scheduler)
    for first, cached in ((5, 4), (6, 0)):
        scheduler.add(request("again", 5, most=1, first=first))
        assert step(scheduler)[0].cached_tokens == cached


def test_several_steps_only_for_pure_decode_with_enough_blocks() -> None:
    scheduler = make(blocks=8, max_decode_steps=5)
    planned = []
    for name, prompt, most in (("a", 6, 20), ("b", 3, 3)):
        scheduler.add(request(name, prompt, most=most))
        for _ in range(2):
            batch = scheduler.schedule()
            planned.append((batch.steps, [entry.sequence.request for entry in batch.entries]))
            check(scheduler, batch)
            scheduler.commit(batch, compute(batch))
    # A prompt is computed alone or beside others in one step; b ends early, and what it had room for is free again.
    assert planned == [(1, ["a"]), (5, ["a"]), (1, ["a", "b"]), (5, ["a", "b"])]
    assert [sequence.request for sequence in scheduler.running] == ["a"]
    assert scheduler.load().kv_blocks_used == scheduler.blocks.blocks_for(scheduler.running[0].computed)


def test_several_steps_end_where_a_budget_of_reasoning_does() -> None:
    scheduler = make(max_decode_steps=5)
    limited = ReasoningTokens(end=[9], budget=7, forced=[9])
    scheduler.add(replace(request("a", 3, most=20), reasoning=limited))
    steps = []
    while not scheduler.running or scheduler.running[0].generated < 8:
        batch = scheduler.schedule()
        check(scheduler, batch)
        if batch.steps > 1:
            assert batch.entries[0].sequence.generated + batch.steps <= 7
        steps.append(batch.steps)
        forced = batch.entries[0].sequence.reasoning
        drawn = compute(batch)
        if forced is not None and forced.forced is not None:
            drawn = StepResult([[forced.forced]], [None])
        scheduler.commit(batch, drawn)
    assert steps == [1, 5, 2, 1, 1]
    assert scheduler.running[0].token_ids[-1] == 9
    assert scheduler.schedule().steps == 5, "the answer has no budget"


def planned(scheduler: Scheduler) -> list[tuple[str, int]]:
    """Return the requests of a step and their numbers of tokens."""
    batch = scheduler.schedule()
    check(scheduler, batch)
    scheduler.commit(batch, compute(batch))
    return [(entry.sequence.request, entry.count) for entry in batch.entries]


def test_decodes_are_deferred_for_short_prompts_every_second_step_at_most() -> None:
    scheduler = make(ahead=range(4, 11))
    scheduler.add(request("a", 20, most=10))
    assert planned(scheduler) == [("a", 20)]
    steps = []
    for name in "bcde":
        scheduler.add(request(name, 5, most=10, first=ord(name) % 50))
        steps.append(planned(scheduler))
    assert steps[0] == [("b", 5)]
    assert steps[1] == [("a", 1), ("b", 1), ("c", 5)]  # a was left out just now
    assert steps[2] == [("d", 5)]
    assert steps[3] == [("a", 1), ("b", 1), ("c", 1), ("d", 1), ("e", 5)]


@pytest.mark.parametrize("prompts", [[3], [11], [6, 5]])
def test_decodes_are_not_deferred_for_prompts_of_other_lengths(prompts: list[int]) -> None:
    scheduler = make(ahead=range(4, 11))
    scheduler.add(request("a", 5, most=10))
    planned(scheduler)
    for index, length in enumerate(prompts):
        scheduler.add(request(f"b{index}", length, first=6 + index))
    assert planned(scheduler) == [("a", 1), *((f"b{index}", length) for index, length in enumerate(prompts))]


def going_on(scheduler: Scheduler) -> Batch:
    """A current step of pure decode."""
    batch = scheduler.schedule()
    assert [entry.count for entry in batch.entries] == [1] * len(batch.entries)
    return batch


def test_a_short_prompt_interrupts_every_second_step_at_most() -> None:
    scheduler = make(ahead=range(4, 11))
    scheduler.add(request("a", 20, most=10))
    planned(scheduler)
    outer = going_on(scheduler)
    scheduler.add(request("b", 5, first=6))
    scheduler.add(request("c", 5, first=7))
    inner = scheduler.schedule_prefill_interrupt()
    assert inner is not None
    check(scheduler, inner)
    assert [(entry.sequence.request, entry.count) for entry in inner.entries] == [("b", 5)]
    assert scheduler.schedule_prefill_interrupt() is None  # one a step
    assert [event.request for event in scheduler.commit(inner, compute(inner))] == ["b"]
    assert [event.request for event in scheduler.commit(outer, compute(outer))] == ["a"]
    assert planned(scheduler) == [("a", 1), ("b", 1), ("c", 5)]  # a has waited just now
    outer = going_on(scheduler)
    scheduler.add(request("d", 5, first=8))
    assert scheduler.schedule_prefill_interrupt() is not None


@pytest.mark.parametrize("length", [3, 11])
def test_prompts_of_other_lengths_do_not_interrupt_a_step(length: int) -> None:
    scheduler = make(ahead=range(4, 11))
    scheduler.add(request("a", 5, most=10))
    planned(scheduler)
    outer = going_on(scheduler)
    scheduler.add(request("b", length, first=6))
    assert scheduler.schedule_prefill_interrupt() is None
    scheduler.commit(outer, compute(outer))
    assert planned(scheduler) == [("a", 1), ("b", length)]


def test_a_step_with_prefill_is_not_interrupted() -> None:
    scheduler = make(ahead=range(4, 11))
    scheduler.add(request("a", 5))
    batch = scheduler.schedule()
    scheduler.add(request("b", 5, first=6))
    assert scheduler.schedule_prefill_interrupt() is None
    scheduler.commit(batch, compute(batch))
    assert planned(scheduler) == [("b", 5)]


@pytest.mark.parametrize("limits", [{"seqs": 1}, {"blocks": 4}])
def test_no_prompt_interrupts_without_a_slot_and_blocks(limits: dict[str, int]) -> None:
    scheduler = make(ahead=range(4, 11), **limits)  # type: ignore[arg-type]
    scheduler.add(request("a", 10, most=6))
    planned(scheduler)
    outer = going_on(scheduler)
    scheduler.add(request("b", 8, first=6))
    assert scheduler.schedule_prefill_interrupt() is None
    assert [sequence.request for sequence in scheduler.running] == ["a"]
    scheduler.commit(outer, compute(outer))


def flex(name: str, prompt: int, most: int = 10) -> GenerationRequest:
    return replace(request(name, prompt, most, first=ord(name[0]) % 50), flex=True)


def test_flex_is_left_out_of_steps_with_anothers_prompt_but_not_for_ever() -> None:
    scheduler = make(seqs=16, budget=64)
    scheduler.add(flex("f", 5, most=40))
    assert planned(scheduler) == [("f", 5)]
    steps = []
    for number in range(9):
        scheduler.add(request(f"p{number}", 3, most=1, first=10 + number))
        steps.append(planned(scheduler))
    assert [len(each) for each in steps] == [1] * 7 + [2, 1]
    assert steps[7] == [("p7", 3), ("f", 1)]
    scheduler.add(request("last", 3, most=9))
    assert planned(scheduler) == [("last", 3)]
    assert planned(scheduler) == [("last", 1), ("f", 1)], "decodes are computed together"


def test_flex_is_preempted_for_a_slot_and_resumed() -> None:
    scheduler = make(seqs=2)
    for name in "fg":
        scheduler.add(flex(name, 5))
    assert planned(scheduler) == [("f", 5), ("g", 5)]
    scheduler.add(request("a", 5, most=2, first=7))
    assert planned(scheduler) == [("a", 5)]
    assert [each.request for each in scheduler.running] == ["a", "f"]
    assert planned(scheduler) == [("a", 1), ("f", 1)]
    assert planned(scheduler) == [("f", 1), ("g", 2)], "recomputed but for the block that the prefix cache has"
    scheduler.add(request("b", 5, n=2, first=8))
    tokens = Counter[str]()
    while scheduler.has_work():
        tokens.update(event.request for event in step(scheduler))
    assert tokens["b"] == 8
    assert scheduler.load().preemptions >= 2


def test_flex_is_preempted_for_blocks() -> None:
    scheduler = make(blocks=6, cached=False)
    scheduler.add(flex("f", 16, most=4))
    planned(scheduler)
    scheduler.add(request("a", 12, most=4))
    assert planned(scheduler) == [("a", 12)]
    assert [each.request for each in scheduler.running] == ["a"]
    scheduler.add(flex("g", 4))
    assert planned(scheduler) == [("a", 1)], "f, which was preempted, is the next of its class"
    while scheduler.has_work():
        step(scheduler)


def test_flex_leaves_an_eighth_of_the_slots_free() -> None:
    scheduler = make(seqs=8)
    for name in "abcdefgh":
        scheduler.add(flex(name, 2))
    assert len(planned(scheduler)) == 7
    scheduler.add(request("p", 2))
    assert planned(scheduler) == [("p", 2)]
    assert scheduler.load().preemptions == 0


def beside(scheduler: Scheduler) -> list[tuple[str, int]] | None:
    """Compute a step between two layers of one of `flex`; return its entries, `None` if there is nothing to compute."""
    batch = scheduler.schedule_beside_flex()
    if batch is None:
        return None
    check(scheduler, batch)
    scheduler.commit(batch, compute(batch))
    return [(entry.sequence.request, entry.count) for entry in batch.entries]


def test_whole_answers_of_others_are_computed_between_the_layers_of_a_step_of_flex() -> None:
    scheduler = make(ahead=range(4, 11))
    scheduler.add(flex("f", 20))
    outer = scheduler.schedule()
    assert outer.is_flex
    assert not scheduler.has_non_flex
    scheduler.add(flex("g", 5))
    assert scheduler.schedule_prefill_interrupt() is None
    assert beside(scheduler) is None
    scheduler.add(request("a", 3, most=2, first=7))
    assert beside(scheduler) == [("a", 3)]
    scheduler.add(request("b", 30, most=1, first=8))
    assert beside(scheduler) == [("a", 1), ("b", 30)]
    assert beside(scheduler) is None
    scheduler.add(request("c", 3, most=9, first=9))
    assert beside(scheduler) == [("c", 3)]
    scheduler.abort("c")
    assert beside(scheduler) is None
    assert [event.request for event in scheduler.commit(outer, compute(outer))] == ["f"]
    while scheduler.has_work():
        step(scheduler)


def test_steps_of_flex_are_short_where_rows_take_time() -> None:
    for ahead, tokens in ((range(0), 256), (range(4, 11), FLEX_STEP_TOKENS)):
        scheduler = make(blocks=128, budget=256, ahead=ahead)
        for name in "abcdef":
            scheduler.add(flex(name, 50))
        assert sum(count for _, count in planned(scheduler)) == tokens


def test_steps_beside_flex_take_turns_with_it() -> None:
    scheduler = make(ahead=range(4, 11))
    scheduler.add(flex("f", 5, most=40))
    scheduler.add(request("a", 5, most=40))
    steps = [planned(scheduler) for _ in range(9)]
    assert steps == [[("a", 5)], *[[("a", 1)]] * 6, [("f", 5)], [("a", 1)]]
    assert scheduler.has_non_flex


@pytest.mark.parametrize("limits", [{"seqs": 1}, {"blocks": 5, "cached": False}])
def test_nothing_is_preempted_within_a_step_of_flex(limits: dict[str, int]) -> None:
    scheduler = make(ahead=range(4, 11), **limits)  # type: ignore[arg-type]
    scheduler.add(flex("f", 14, most=2))
    outer = scheduler.schedule()
    scheduler.add(request("a", 8, most=4, first=7))
    assert beside(scheduler) is None
    assert [each.request for each in scheduler.running] == ["f"]
    scheduler.commit(outer, compute(outer))
    assert planned(scheduler) == [("a", 8)]
    while scheduler.has_work():
        step(scheduler)


def test_a_sequence_waits_for_the_end_of_a_step_of_flex_if_its_next_block_is_not_free() -> None:
    scheduler = make(blocks=6, cached=False, ahead=range(4, 11))
    scheduler.add(flex("f", 16, most=4))
    outer = scheduler.schedule()
    scheduler.add(request("a", 8, most=4, first=7))
    assert beside(scheduler) == [("a", 8)]
    assert beside(scheduler) is None
    assert scheduler.load().preemptions == 0
    scheduler.commit(outer, compute(outer))
    while scheduler.has_work():
        step(scheduler)


def test_choices_never_exceed_the_slots() -> None:
    scheduler = make(seqs=3)
    scheduler.add(request("a", 6, n=5))
    tokens = Counter[int]()
    while scheduler.has_work():
        tokens.update(event.choice for event in step(scheduler))
    assert tokens == dict.fromkeys(range(5), 4)
    assert scheduler.load().prompt_tokens == 6


def test_load_counts_unforked_choices_as_waiting() -> None:
    scheduler = make(seqs=2)
    scheduler.add(request("a", 20, n=3))
    scheduler.add(request("b", 20))
    assert (scheduler.load().running, scheduler.load().waiting) == (0, 4)
    step(scheduler)
    assert (scheduler.load().running, scheduler.load().waiting) == (2, 2)
    scheduler.abort("a")
    assert (scheduler.load().running, scheduler.load().waiting) == (1, 0)
    scheduler.abort("b", 0)
    assert not scheduler.has_work()


@pytest.mark.parametrize("choice", [0, 1, 2])
@pytest.mark.parametrize("after", range(6))
def test_one_choice_can_be_dropped_at_any_time(choice: int, after: int) -> None:
    scheduler = make(budget=3, seqs=2)
    scheduler.add(request("a", 8, n=3))
    events = [event for _ in range(after) for event in step(scheduler)]
    scheduler.abort("a", choice)
    before = len(events)
    while scheduler.has_work():
        events += step(scheduler)
    assert all(event.choice != choice for event in events[before:])
    tokens = Counter(event.choice for event in events)
    assert all(tokens[other] == 4 for other in {0, 1, 2} - {choice})


def test_a_pool_too_small_for_the_context_is_rejected() -> None:
    limits = EngineLimits(65, 1, 1, 50, frozenset())
    with pytest.raises(ValueError, match="16 blocks"):
        Scheduler(limits, BlockManager(16, 4, PrefixCache()), NoSpeculation())


arrivals = st.builds(
    request,
    st.sampled_from("abcdefgh"),
    st.integers(1, 40),
    st.integers(1, 24),
    st.integers(1, 4),
    st.integers(5, 6),
)
moves = st.one_of(
    arrivals,
    arrivals.map(lambda each: replace(each, flex=True)),
    st.tuples(st.sampled_from("abcdefgh"), st.none() | st.integers(0, 3)),
    st.just("step"),
    st.just("fail"),
)


@settings(max_examples=150, deadline=None)
@given(
    st.lists(moves, max_size=40),
    st.integers(16, 40),
    st.sampled_from([1, 3, 4]),
    st.integers(1, 6),
    st.integers(1, 40),
    st.booleans(),
    st.sampled_from([1, 2, 7]),
    st.sampled_from([range(0), range(2, 9), range(1, 41)]),
)
def test_every_request_ends_in_any_order_of_events(
    script: list[object],
    blocks: int,
    block_size: int,
    seqs: int,
    budget: int,
    cached: bool,
    max_decode_steps: int,
    ahead: range,
) -> None:
    scheduler = make(blocks, block_size, seqs, budget, cached, max_decode_steps=max_decode_steps, ahead=ahead)
    owed: dict[tuple[str, int], int] = {}

    def settle(events: list[TokenEvent]) -> None:
        for event in events:
            key = event.request, event.choice
            owed[key] -= len(event.token_ids)
            assert (event.finish_reason is not None) == (owed[key] == 0)
            if event.finish_reason:
                del owed[key]

    def forget(name: str, choice: int | None = None) -> None:
        for key in [key for key in owed if key[0] == name and choice in (None, key[1])]:
            del owed[key]

    for move in script:
        if isinstance(move, GenerationRequest):
            forget(move.id)
            scheduler.add(move)
            if not scheduler.take_failures():
                most = move.sampling.max_tokens
                assert most is not None
                owed |= {(move.id, choice): most for choice in range(move.n)}
        elif isinstance(move, tuple):
            scheduler.abort(*move)
            forget(*move)
        elif move == "step":
            settle(step(scheduler))
        elif move == "fail" and (batch := scheduler.schedule()).entries:
            guilty = batch.entries[0].sequence.request
            forget(guilty)
            result = compute(batch)
            settle(scheduler.commit(batch, StepResult(result.token_ids, result.logprobs, frozenset({guilty}))))
            assert [failure.request for failure in scheduler.take_failures()] == [guilty]
        load = scheduler.load()
        assert load.running + load.waiting == len(owed)
        assert 0 <= load.kv_tokens_held <= load.kv_blocks_used * block_size
    patience = 20_000
    while scheduler.has_work():
        settle(step(scheduler))
        patience -= 1
        assert patience
    assert not owed
    assert scheduler.load().kv_blocks_used == 0
