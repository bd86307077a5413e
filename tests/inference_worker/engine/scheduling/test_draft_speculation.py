"""Tests of drafts by a draft model: they change the number of steps of an output and nothing else."""

from __future__ import annotations

from array import array
from collections import Counter
from typing import Any

import pytest
import torch
from msgspec.structs import replace
from scipy.stats import chisquare

from inference_worker.engine.batch import Batch, ScheduledSequence, StepResult
from inference_worker.engine.engine import Engine
from inference_worker.engine.loading.draft_model import DraftModel
from inference_worker.engine.scheduling.block_manager import BlockManager
from inference_worker.engine.scheduling.draft_speculation import DraftSpeculation
from inference_worker.engine.scheduling.prefix_cache import PrefixCache
from inference_worker.engine.scheduling.speculation import NoSpeculation, StepCost
from inference_worker.engine.sequence import Sequence
from inference_worker.engine_protocol import GenerationRequest
from inference_worker.reasoning import ReasoningTokens
from inference_worker.settings import EngineSettings
from router.messages import Grammar, GrammarKind, SamplingParams
from tests.fakes.tiny_model import TinyModel, tiny_engine
from tests.inference_worker.engine.test_reasoning_budget import VOCABULARY
from tests.inference_worker.generation import finish, generate, ids, prompts, request

PROMPTS = prompts(12, seed=9)


class NearlyTheModel(TinyModel):
    """A draft model that is right about half of the time: the tiny model with its last layer's weights halved."""

    def __init__(self) -> None:
        super().__init__()
        self.layers[-1] = tuple(weight / 2 for weight in self.layers[-1])  # type: ignore[assignment]


def drafting(draft: TinyModel, relative_cost: float = 0.02, **settings: Any) -> Engine:
    """As `tiny_engine`, with a draft model."""
    values: dict[str, Any] = {"model": "tiny", "block_size": 4, "num_kv_blocks": 512, **settings}
    of_draft = DraftModel(draft, relative_cost)
    made = EngineSettings(**values)
    return Engine.from_model(TinyModel(), made, torch.float32, vocabulary=lambda: VOCABULARY, draft=of_draft)


def draft_speculation_of(engine: Engine) -> DraftSpeculation:
    speculation = engine.scheduler.speculation
    assert isinstance(speculation, DraftSpeculation)
    return speculation


def requests(**sampling: Any) -> list[GenerationRequest]:
    """Half greedy, half random."""
    return [
        request(f"r{i}", prompt, seed=i, temperature=(i % 2) * 0.9, max_tokens=9 + i % 9, n=1 + i % 2, **sampling)
        for i, prompt in enumerate(PROMPTS)
    ]


@pytest.fixture(scope="module")
def plain() -> dict[tuple[str, int], list[int]]:
    return ids(generate(tiny_engine(), requests()))


@pytest.mark.parametrize("temperature", [0.0, 0.9])
@pytest.mark.parametrize("penalty", [0.0, 1.0])
def test_a_draft_model_equal_to_the_model_is_always_right(temperature: float, penalty: float) -> None:
    wanted = request("r", PROMPTS[0], temperature=temperature, max_tokens=35, presence_penalty=penalty)
    engine = drafting(TinyModel())
    generate(engine, [wanted])
    load = engine.load()
    assert load.accepted_tokens == load.draft_tokens > 25
    assert load.steps < 8


@pytest.mark.parametrize(
    "settings",
    [
        {},
        {"speculation": "ngram"},
        {"enable_prefix_caching": False},
        {"max_num_seqs": 2, "block_size": 1},
        {"max_num_batched_tokens": 9},
        {"num_kv_blocks": 16, "max_model_len": 60},
        {"num_kv_blocks": 16, "max_model_len": 60, "max_num_batched_tokens": 7, "enable_prefix_caching": False},
    ],
)
@pytest.mark.parametrize("draft", [TinyModel, NearlyTheModel, lambda: TinyModel(seed=5)])
def test_tokens_are_those_without_drafts(
    plain: dict[tuple[str, int], list[int]], settings: dict[str, Any], draft: Any
) -> None:
    engine = drafting(draft(), **settings)
    assert ids(generate(engine, requests())) == plain
    load = engine.load()
    assert load.draft_tokens > 0
    assert ("num_kv_blocks" in settings) == (load.preemptions > 0)
    assert draft_speculation_of(engine)._blocks.used == 0


def test_log_probabilities_are_those_without_drafts() -> None:
    outcomes = []
    for engine in (tiny_engine(), drafting(NearlyTheModel())):
        outcomes.append(generate(engine, requests(logprobs=2, prompt_logprobs=1, repetition_penalty=1.3)))
    assert engine.load().accepted_tokens > 0
    assert ids(outcomes[0]) == ids(outcomes[1])
    for expected, choice in zip(outcomes[0].values(), outcomes[1].values(), strict=True):
        assert len(choice.logprobs) == len(choice.ids)
        reported, right = ([one.chosen.logprob for one in each.logprobs] for each in (choice, expected))
        assert reported == pytest.approx(right, abs=1e-4)  # rows of another shape are rounded differently


@pytest.mark.parametrize("temperature", [0.0, 0.9])
def test_grammars_and_reasoning_budgets_hold(temperature: float) -> None:
    grammar = Grammar(kind=GrammarKind.REGEX, source="[a-h]{2,}[0-9]{3}")
    reasoning = ReasoningTokens(end=[22], budget=5, forced=[9, 22])
    params: dict[str, Any] = {"temperature": temperature, "max_tokens": 30}
    wanted = [
        replace(request("grammar", [3, 4, 5], ignore_eos=False, **params), grammar=grammar),
        replace(request("reasoning", [5, 4], **params), reasoning=reasoning),
        replace(request("both", [5, 6], **params), reasoning=reasoning, grammar=grammar),
        request("neither", [7, 8], **params),
    ]
    engine = drafting(TinyModel())
    outcome = generate(engine, wanted)
    values = EngineSettings("tiny", block_size=4, num_kv_blocks=512)
    plain = Engine.from_model(TinyModel(), values, torch.float32, vocabulary=lambda: VOCABULARY)
    assert ids(outcome) == ids(generate(plain, wanted))
    load = engine.load()
    assert 0 < load.accepted_tokens < load.draft_tokens


def test_a_useless_draft_model_soon_drafts_no_more() -> None:
    engine = drafting(TinyModel(seed=5))
    generate(engine, [request("r", PROMPTS[0], max_tokens=200)])
    early = engine.load().draft_tokens
    assert early < 120

    expensive = drafting(TinyModel(), relative_cost=1.0)
    generate(expensive, [request("r", PROMPTS[0])])
    assert expensive.load().draft_tokens == 0


@pytest.mark.parametrize(
    ("prompt_tokens", "max_tokens", "drafted"),
    [
        (2, 3, True),
        (100, 10, False),
        (100, 30, True),
        (1000, 100, False),
        (1000, 200, True),
        (1000, 100_000, True),
        (3000, 100_000, False),
    ],
)
def test_a_sequence_is_drafted_only_if_what_is_left_of_its_answer_pays_for_the_catch_up(
    prompt_tokens: int, max_tokens: int, drafted: bool
) -> None:
    """The first draft saves 6.3 rows a step and takes 3.25; to catch up with a prompt of 1000 tokens takes 280 once."""
    sampling = SamplingParams(seed=0)
    sequence = Sequence("r", 0, array("q", range(prompt_tokens + 1)), prompt_tokens, sampling, max_tokens)
    computed: list[int] = []

    def execute(batch: Batch) -> StepResult:
        computed.extend(entry.count for entry in batch.entries)
        return StepResult([[7] if entry.sample_count else [] for entry in batch.entries])

    speculation = DraftSpeculation(
        execute,
        BlockManager(200, 16, PrefixCache()),
        StepCost(fixed=8, cheap_rows=100),
        relative_cost=0.25,
        max_model_len=4096,
        max_batched_tokens=64,
        lookup=NoSpeculation(),
    )
    drafts: dict[int, list[int]] = {}
    for _ in range(prompt_tokens // 64 + 1):
        assert not drafts
        drafts = speculation.drafts([ScheduledSequence(sequence, prompt_tokens, 1)], 1, 100)
    assert bool(drafts) == bool(computed) == drafted
    assert not drafted or sum(computed) == prompt_tokens + len(drafts[0])


def test_sequences_of_the_class_flex_are_not_drafted() -> None:
    engine = drafting(TinyModel())
    person, flex = request("person", PROMPTS[0], max_tokens=30), request("flex", PROMPTS[1], max_tokens=30)
    outcome = generate(engine, [person, replace(flex, flex=True)])
    assert ids(outcome) == ids(generate(tiny_engine(), [person, flex]))
    assert draft_speculation_of(engine)._blocks.peak <= -(-(len(PROMPTS[0]) + 30) // 4)
    assert 20 < engine.load().draft_tokens < 30


def test_a_full_batch_gets_no_drafts() -> None:
    engine = drafting(TinyModel())
    for number, prompt in enumerate(prompts(33, longest=3)):
        engine.add(request(f"r{number}", prompt, max_tokens=8))
    while engine.load().generation_tokens < 33 * 4:
        engine.step()
    assert engine.load().draft_tokens == 0
    finish(engine)


def test_the_cache_of_the_draft_model_reuses_prefixes_of_the_same_salt_only() -> None:
    engine = drafting(model := TinyModel())
    computed = []
    forward = model.forward

    def counted(token_ids: Any, *rest: Any) -> Any:
        computed.append(len(token_ids))
        return forward(token_ids, *rest)

    model.forward = counted  # type: ignore[method-assign, assignment]
    for salt, most in (("a", 42), ("a", 2), ("b", 42)):
        computed.clear()
        generate(engine, [request("r", list(range(3, 44)), salt=salt)])
        assert max(computed) == most
    assert draft_speculation_of(engine)._blocks.used == 0


def test_blocks_of_sequences_that_do_not_draft_now_are_freed_for_others() -> None:
    engine = drafting(NearlyTheModel(), num_kv_blocks=24, max_model_len=90)
    outcome = generate(engine, [request(f"r{n}", prompt, max_tokens=40) for n, prompt in enumerate(PROMPTS)])
    expected = generate(tiny_engine(), [request(f"r{n}", prompt, max_tokens=40) for n, prompt in enumerate(PROMPTS)])
    assert ids(outcome) == ids(expected)
    assert engine.load().preemptions > 0
    assert draft_speculation_of(engine)._blocks.peak <= 24


def test_a_request_on_which_the_draft_model_fails_is_decoded_without_drafts() -> None:
    draft = TinyModel()
    draft.poison = {60}
    engine = drafting(draft)
    wanted = [request("bad", [60, 4, 5], max_tokens=20), request("good", [5, 6, 7], max_tokens=20)]
    outcome = ids(generate(engine, wanted))
    assert outcome == ids(generate(tiny_engine(), wanted))
    assert 0 < engine.load().accepted_tokens < 20


def test_the_distribution_of_samples_is_the_models() -> None:
    """Of pairs of tokens, the second of which follows a draft: with drafts of another model, against many samples."""

    def pairs(engine: Engine, first_seed: int) -> Counter[tuple[int, ...]]:
        wanted = [
            request(f"r{seed}", [3, 4, 5], seed=seed, temperature=1.0, max_tokens=3, allowed_token_ids=[3, 4, 5, 6])
            for seed in range(first_seed, first_seed + 1500)
        ]
        outcome = generate(engine, wanted)
        return Counter(tuple(choice.ids[1:]) for choice in outcome.values())

    engine = drafting(NearlyTheModel(), max_num_seqs=4)
    drafted, expected = pairs(engine, 0), pairs(tiny_engine(), 10_000)
    assert 0 < engine.load().accepted_tokens < engine.load().draft_tokens
    kinds = [pair for pair, count in expected.items() if count >= 10]
    observed = [drafted[pair] for pair in kinds]
    scale = sum(observed) / sum(expected[pair] for pair in kinds)
    assert chisquare(observed, [expected[pair] * scale for pair in kinds]).pvalue > 1e-4
