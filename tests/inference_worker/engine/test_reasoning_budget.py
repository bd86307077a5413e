"""Budgets of reasoning tokens and grammars after the reasoning, under speculation, preemption and resumption."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from msgspec.structs import replace

from inference_worker.engine.engine import Engine
from inference_worker.engine.sampling.graph_sampling import stage_of
from inference_worker.engine.scheduling.limits import EngineLimits
from inference_worker.engine.scheduling.new_requests import rejection_reason, to_sequences
from inference_worker.engine.scheduling.stop_conditions import append_decoded
from inference_worker.engine_protocol import GenerationRequest
from inference_worker.reasoning import ReasoningTokens
from inference_worker.settings import EngineSettings
from inference_worker.structured.vocabulary import Vocabulary
from router.messages import Grammar, GrammarKind
from tests.fakes.tiny_model import EOS, TinyModel, tiny_engine
from tests.inference_worker.generation import Choice, Outcome, finish, generate, ids, prompts, request, take

START, FIRST_END, END = 20, 21, 22
TOKENS = [b"<pad>", b"<bos>", b"<eos>", *(bytes([97 + number]) for number in range(17)), b"<t>", b"</", b"t>"]
DIGITS = range(len(TOKENS), len(TOKENS) + 10)
VOCABULARY = Vocabulary([*TOKENS, *(str(digit).encode() for digit in range(10))], frozenset({0, 1, 2}))
NUMBER = Grammar(kind=GrammarKind.REGEX, source="[0-9]{4}")
LIMITS = EngineLimits(
    max_model_len=100, max_num_seqs=4, max_num_batched_tokens=100, vocab_size=61, eos_token_ids=frozenset({EOS})
)


def reasoning(budget: int | None = None, *, start: int | None = None, end: tuple[int, ...] = (END,)) -> ReasoningTokens:
    return ReasoningTokens(start=start, end=[*end], budget=budget, forced=[] if budget is None else [9, *end])


def wanted(name: str, of: ReasoningTokens, prompt: list[int] | None = None, **options: Any) -> GenerationRequest:
    grammar = options.pop("grammar", None)
    values = {"temperature": 1.0, "max_tokens": 40, **options}
    return replace(request(name, prompt or [5, 6, 7], **values), reasoning=of, grammar=grammar)


def engine(**settings: Any) -> Engine:
    values: dict[str, Any] = {"model": "tiny", "block_size": 4, "num_kv_blocks": 512, **settings}
    return Engine.from_model(TinyModel(), EngineSettings(**values), torch.float32, vocabulary=lambda: VOCABULARY)


def test_the_end_is_forced_once_the_budget_is_used_up() -> None:
    banned = {FIRST_END: -100.0, END: -100.0}
    outcome = generate(
        tiny_engine(),
        [
            wanted("limited", reasoning(6, end=(FIRST_END, END)), logit_bias=banned),
            wanted("unlimited", reasoning(), logit_bias=banned),
            wanted("none", reasoning(0), logit_bias=banned, n=2),
        ],
    )
    limited, unlimited = outcome["limited", 0].ids, outcome["unlimited", 0].ids
    assert limited[6:9] == [9, FIRST_END, END]
    assert limited[:6] == unlimited[:6]
    assert not {FIRST_END, END} & {*limited[:6], *limited[9:], *unlimited}
    assert [outcome["none", choice].ids[:2] for choice in range(2)] == [[9, END]] * 2
    assert outcome["none", 0].ids != outcome["none", 1].ids


def test_a_reasoning_that_the_model_did_not_begin_has_no_budget() -> None:
    begun = wanted("begun", reasoning(2, start=START), logit_bias={START: 100.0, END: -100.0}, max_tokens=5)
    other = wanted("other", reasoning(2, start=START), logit_bias={START: -100.0, END: -100.0}, max_tokens=5)
    outcome = generate(tiny_engine(), [begun, other])
    assert outcome["begun", 0].ids[:1] + outcome["begun", 0].ids[3:] == [START, 9, END]
    assert END not in outcome["other", 0].ids


def test_bans_and_penalties_do_not_prevent_the_forced_end() -> None:
    options: dict[str, Any] = {
        "allowed_token_ids": [5, 6],
        "logit_bias": {END: -100.0},
        "presence_penalty": 2.0,
        "min_tokens": 9,
    }
    (choice,) = generate(tiny_engine(), [wanted("a", reasoning(3), **options)]).values()
    assert choice.ids[3:5] == [9, END]
    assert {*choice.ids[:3], *choice.ids[5:]} <= {5, 6}


@pytest.mark.parametrize("temperature", [0.0, 0.8])
@pytest.mark.parametrize("settings", [{"speculation": "ngram"}, {"num_kv_blocks": 40, "max_model_len": 150}])
def test_neither_batches_nor_speculation_nor_preemption_change_the_output(
    temperature: float, settings: dict[str, Any]
) -> None:
    requests = [
        wanted(f"r{number}", reasoning(number, end=(FIRST_END, END)), [*prompt, *prompt], temperature=temperature, n=2)
        for number, prompt in enumerate(prompts(8), 3)
    ]
    alone: Outcome = {}
    for one in requests:
        alone |= generate(tiny_engine(), [one])
    made = tiny_engine(**settings)
    assert ids(generate(made, requests)) == ids(alone)
    assert made.load().preemptions if "num_kv_blocks" in settings else made.load().accepted_tokens


@pytest.mark.parametrize("grammar", [None, NUMBER])
@pytest.mark.parametrize("start", [None, START])
def test_a_choice_resumes_at_any_token(grammar: Grammar | None, start: int | None) -> None:
    of = reasoning(5, start=start)
    first = wanted("a", of, logit_bias={START: 9.0}, grammar=grammar, max_tokens=12)
    whole = generate(engine(), [first])["a", 0].ids
    for cut in range(1, len(whole)):
        rest = generate(engine(), [replace(first, delivered=[whole[:cut]])])
        assert whole[:cut] + rest["a", 0].ids == whole


@pytest.mark.parametrize("settings", [{}, {"speculation": "ngram"}, {"num_kv_blocks": 24, "max_model_len": 60}])
def test_the_grammar_begins_after_the_reasoning(settings: dict[str, Any]) -> None:
    made = engine(**settings)
    requests = [
        wanted(
            f"{name}{seed}", of, [4, 5, 4, 5, 4], seed=seed, grammar=NUMBER, ignore_eos=False, logit_bias={EOS: -99.0}
        )
        for seed in range(4)
        for name, of in (("open", reasoning(7)), ("undecided", reasoning(7, start=START)))
    ]
    outcome = generate(made, requests)
    assert len(outcome) == 8
    for (name, _), choice in outcome.items():
        if name.startswith("open") or choice.ids[0] == START:
            thought, answer = choice.ids[: choice.ids.index(END)], choice.ids[choice.ids.index(END) + 1 :]
            assert len(thought) >= 1
            assert set(thought) - set(DIGITS)
        else:
            answer = choice.ids
        assert len(answer) == 4
        assert set(answer) <= set(DIGITS)
        assert choice.reason == "stop"


def test_the_model_may_begin_its_reasoning_before_the_grammar_or_leave_it_out() -> None:
    begun, omitted = (
        wanted(name, reasoning(3, start=START), grammar=NUMBER, logit_bias={START: bias, END: -99.0}, max_tokens=20)
        for name, bias in (("begun", 99.0), ("omitted", -99.0))
    )
    outcome = generate(engine(), [begun, omitted])
    thought = outcome["begun", 0].ids
    assert (thought[0], thought[4:6], set(thought[6:]) <= set(DIGITS)) == (START, [9, END], True)
    assert set(outcome["omitted", 0].ids) <= set(DIGITS)


def test_drafts_within_and_after_the_reasoning_are_accepted() -> None:
    made = engine(speculation="ngram")
    pattern = [*range(3, 12)] * 3
    one = wanted("a", reasoning(30), pattern, temperature=0.0, max_tokens=60, logit_bias={END: -99.0})
    ngram, plain = generate(made, [one]), generate(engine(), [one])
    assert ids(ngram) == ids(plain)
    assert ngram["a", 0].ids[30:32] == [9, END]


def test_a_preempted_choice_goes_on_where_it_was() -> None:
    made = engine()
    made.add(wanted("a", reasoning(6), grammar=NUMBER, logit_bias={END: -99.0}))
    outcome: Outcome = {}
    while len(outcome.get(("a", 0), Choice()).ids) < 4:
        take(outcome, made.step())
    victim = made.scheduler.running.pop()
    made.scheduler.blocks.release(victim)
    made.scheduler.waiting.push_front(victim)
    resumed = finish(made, outcome)["a", 0].ids
    assert resumed[6:8] == [9, END]
    assert set(resumed[8:]) <= set(DIGITS)


def test_steps_on_the_device_end_where_a_token_is_forced() -> None:
    (sequence,) = to_sequences(wanted("a", reasoning(3), temperature=0.0), LIMITS, [])
    assert stage_of([sequence]) is not None
    assert append_decoded(sequence, [5, 5, 5]) == 3
    assert sequence.reasoning is not None
    assert (sequence.reasoning.unforced, sequence.reasoning.forced, stage_of([sequence])) == (0, 9, None)


def test_forced_tokens_are_in_the_vocabulary() -> None:
    outside = wanted("a", ReasoningTokens(end=[99], budget=1, forced=[99]))
    assert "outside the vocabulary" in (rejection_reason(outside, LIMITS) or "")
