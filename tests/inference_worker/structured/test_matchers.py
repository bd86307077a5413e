"""Grammars on a vocabulary of single characters and a few longer tokens, so that masks are easy to read."""

from __future__ import annotations

import json
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import torch
from msgspec.structs import replace

from inference_worker.engine.engine import Engine
from inference_worker.engine.sampling.masks import Masks
from inference_worker.engine_protocol import GenerationRequest, RequestFailed
from inference_worker.errors import GrammarRejected
from inference_worker.settings import EngineSettings
from inference_worker.structured.compiler import GrammarCompiler
from inference_worker.structured.matcher import NOTHING_LEFT
from inference_worker.structured.vocabulary import Vocabulary
from router.messages import Grammar, GrammarKind, SamplingParams
from tests.fakes.tiny_model import EOS, TinyModel
from tests.inference_worker.generation import finish, generate, request

TOKENS = [
    b"<pad>",
    b"<bos>",
    b"<eos>",
    *(bytes([c]) for c in b'abcdefgh0123456789{}[]:," \n-.xyz'),
    b'{"',
    b'":',
    b"ab",
]
SPACE = TOKENS.index(b" ")
WIDTH = 61
CONTROLS = frozenset({0, 1, 2})
VOCABULARY = Vocabulary(TOKENS, CONTROLS)
SCHEMA = {
    "type": "object",
    "properties": {"a": {"type": "integer", "minimum": 0, "maximum": 99}, "b": {"enum": ["ab", "cd"]}},
    "required": ["a", "b"],
    "additionalProperties": False,
}


def engine(**settings: Any) -> Engine:
    values: dict[str, Any] = {"model": "tiny", "block_size": 4, "num_kv_blocks": 512, **settings}
    made = EngineSettings(**values)
    return Engine.from_model(TinyModel(), made, torch.float32, vocabulary=lambda: VOCABULARY)


def grammar(kind: str, source: object = "") -> Grammar:
    return Grammar(kind=GrammarKind(kind), source=source if isinstance(source, str) else json.dumps(source))


def text(ids: list[int]) -> str:
    return b"".join(TOKENS[token] for token in ids if token not in CONTROLS).decode()


def wanted(name: str, of: Grammar, **options: Any) -> GenerationRequest:
    values: dict[str, Any] = {"temperature": 1.0, "max_tokens": 60, "ignore_eos": False, **options}
    n, delivered = values.pop("n", 1), values.pop("delivered", ())
    return replace(request(name, [5, 6, 7], n=n, delivered=delivered, **values), grammar=of)


JSON_OF_SCHEMA = grammar("json_schema", SCHEMA)


@pytest.fixture(scope="module")
def compiler() -> GrammarCompiler:
    return GrammarCompiler(VOCABULARY, WIDTH, [EOS])


@pytest.mark.parametrize(
    ("of", "good", "bad"),
    [
        (grammar("regex", "[0-9]{3}-a+"), ["123-a", "000-aaa"], ["12-a", "123-"]),
        (grammar("choice", ["ab", "cd", 'x"y']), ["ab", "cd", 'x"y'], ["a", "abc", "x"]),
        (grammar("lark", 'start: "a" start "b" | "x"'), ["x", "axb", "aaxbb"], ["axbb", "ab"]),
        (grammar("json_object"), ['{"a": 1}', "{}"], ["[1]", "1", '{"a":  1}']),
        (JSON_OF_SCHEMA, ['{"a": 7, "b": "cd"}', '{"a":99,"b":"ab"}'], ['{"a": 100, "b": "ab"}', '{"a": 1}']),
    ],
)
def test_matching_and_other_texts(compiler: GrammarCompiler, of: Grammar, good: list[str], bad: list[str]) -> None:
    def complete(written: str) -> bool:
        matcher = compiler.matcher(of)
        matcher.accept(TOKENS.index(character.encode()) for character in written)
        return matcher.error is None and matcher.inner.is_accepting()

    assert [complete(one) for one in good] == [True] * len(good)
    assert [complete(one) for one in bad] == [False] * len(bad)


@pytest.mark.parametrize(
    "of",
    [
        grammar("regex", "("),
        grammar("regex", "(?=a)b"),
        grammar("lark", "start: missing"),
        grammar("json_schema", "{not json"),
        grammar("json_schema", {"type": "foo"}),
        grammar("json_schema", {"type": "string", "minLength": 3, "maxLength": 2}),
        grammar("json_schema", {"not": {"type": "string"}}),
    ],
)
def test_an_invalid_grammar_is_rejected_in_one_line(compiler: GrammarCompiler, of: Grammar) -> None:
    with pytest.raises(GrammarRejected) as error:
        compiler.matcher(of)
    assert 0 < len(str(error.value)) <= 300
    assert "\n" not in str(error.value)
    assert "guidance" not in str(error.value)


@pytest.mark.parametrize("temperature", [0.0, 1.0])
@pytest.mark.parametrize("settings", [{}, {"speculation": "ngram"}, {"num_kv_blocks": 24, "max_model_len": 90}])
def test_every_output_matches(temperature: float, settings: dict[str, Any]) -> None:
    made = engine(**settings)
    requests = [
        wanted(f"r{i}", JSON_OF_SCHEMA, seed=i, temperature=temperature, max_tokens=80, logit_bias={SPACE: -4.0})
        for i in range(12)
    ]
    outcome = generate(made, requests)
    answers = [json.loads(text(choice.ids)) for choice in outcome.values() if choice.reason == "stop"]
    assert len(answers) >= 10
    assert all(0 <= answer["a"] <= 99 and answer["b"] in ("ab", "cd") for answer in answers)
    if "num_kv_blocks" in settings:
        assert made.load().preemptions > 0


def test_neither_batching_nor_speculation_changes_an_output() -> None:
    requests = [
        wanted("choice", grammar("choice", ["abab", "cdcd", "0123"]), seed=3),
        wanted("regex", grammar("regex", "(ab)+x[0-9]{4}"), seed=4, temperature=0.0),
        wanted("schema", JSON_OF_SCHEMA, seed=5, repetition_penalty=1.3),
    ]
    free = [request(f"free{i}", [i + 3, 4, 5] * 3, seed=i, temperature=0.7) for i in range(3)]
    together = generate(engine(), requests + free)
    guessed = generate(engine(speculation="ngram"), requests + free)
    alone = {}
    for one in requests + free:
        alone |= generate(engine(), [one])
    assert {key: choice.ids for key, choice in alone.items()} == {key: choice.ids for key, choice in together.items()}
    assert {key: choice.ids for key, choice in alone.items()} == {key: choice.ids for key, choice in guessed.items()}


def test_draft_tokens_match_the_grammar() -> None:
    made = engine(speculation="ngram")
    generate(made, [wanted("a", grammar("regex", "(abcdefgh){5}x"), temperature=0.0)])
    assert made.load().accepted_tokens > 10


def test_choices_have_independent_matchers() -> None:
    outcome = generate(engine(), [wanted("a", grammar("regex", "[a-h]{8}"), n=8)])
    answers = [text(outcome["a", choice].ids) for choice in range(8)]
    assert len(set(answers)) > 4
    assert {len(answer) for answer in answers} == {8}


def test_a_resumed_choice_continues_in_its_grammar() -> None:
    whole = generate(engine(), [wanted("a", JSON_OF_SCHEMA, seed=9, n=2)])
    ids = [whole["a", choice].ids for choice in range(2)]
    rest = generate(engine(), [wanted("b", JSON_OF_SCHEMA, seed=9, n=2, delivered=[ids[0][:4], ids[1][:2]])])
    assert [ids[0][:4] + rest["b", 0].ids, ids[1][:2] + rest["b", 1].ids] == ids


def fails(made: Engine, *requests: object) -> dict[str, RequestFailed]:
    for one in requests:
        made.add(one)  # type: ignore[arg-type]
    failed: list[RequestFailed] = []
    outcome = {}
    while made.has_work():
        from tests.inference_worker.generation import take

        take(outcome, made.step())
        failed += made.failures()
    return {one.request: one for one in failed}


def test_delivered_tokens_must_match() -> None:
    failed = fails(engine(), wanted("a", JSON_OF_SCHEMA, delivered=[[TOKENS.index(b"x")]]))
    assert failed["a"].in_grammar


def test_a_bad_grammar_fails_its_own_request_only() -> None:
    made = engine()
    failed = fails(made, wanted("bad", grammar("regex", "(")), wanted("good", grammar("regex", "a+b")))
    assert set(failed) == {"bad"}
    assert failed["bad"].in_grammar


def test_a_text_without_tokens_fails_its_own_request_only() -> None:
    """`é` is not in the vocabulary, so after `a` no token is allowed."""
    made = engine()
    failed = fails(made, wanted("bad", grammar("regex", "aé")), wanted("good", grammar("regex", "a{3}b")))
    assert set(failed) == {"bad"}
    assert failed["bad"].in_grammar


@pytest.mark.parametrize("token", [0, TOKENS.index(b"x"), TOKENS.index(b"ab"), WIDTH - 1])
@pytest.mark.parametrize("options", [{"temperature": 0.0}, {}, {"top_p": 0.9, "top_k": 3}, {"logprobs": 2}])
def test_bans_of_all_allowed_tokens_fail_their_own_request_only(token: int, options: dict[str, Any]) -> None:
    for speculation in ("off", "ngram"):
        bad = wanted("bad", grammar("regex", "c+d"), allowed_token_ids=[token], **options)
        good = wanted("good", grammar("regex", "a{3}b"), **options)
        failed = fails(engine(speculation=speculation), bad, good)
        assert {name: (one.message, one.in_grammar) for name, one in failed.items()} == {"bad": (NOTHING_LEFT, True)}


@pytest.mark.parametrize("temperature", [0.0, 1.0])
def test_bad_words_that_exclude_all_allowed_tokens_fail_the_request(temperature: float) -> None:
    bad = replace(wanted("bad", grammar("regex", "ax"), temperature=temperature), bad_words=[[TOKENS.index(b"x")]])
    assert fails(engine(), bad)["bad"].message == NOTHING_LEFT


def test_a_row_without_tokens_has_no_nan() -> None:
    matcher = GrammarCompiler(VOCABULARY, WIDTH, [EOS]).matcher(grammar("regex", "c+d"))
    params = SamplingParams(seed=1, allowed_token_ids=[TOKENS.index(b"x")])
    sequence = SimpleNamespace(
        matcher=matcher,
        active_matcher=matcher,
        reasoning=None,
        bad_words=[],
        sampling=params,
        generated=0,
        stop_ids=frozenset(),
        token_ids=np.array([5]),
    )
    logits = torch.full((1, WIDTH), float("-inf"))
    logits[0, TOKENS.index(b"x")] = 1.0
    Masks().apply(logits, [sequence])  # type: ignore[list-item]
    assert not logits.softmax(-1).isnan().any()
    matcher.accept([int(logits.argmax())])
    assert matcher.error == NOTHING_LEFT


def test_without_a_vocabulary_only_grammars_fail() -> None:
    values = EngineSettings(model="tiny", block_size=4, num_kv_blocks=64)
    made = Engine.from_model(TinyModel(), values, torch.float32)
    failed = fails(made, wanted("a", JSON_OF_SCHEMA), request("b", [5, 6]))
    assert failed["a"].message == "This model can't follow grammars."
    assert set(failed) == {"a"}


def test_an_aborted_request_is_not_scheduled() -> None:
    made = engine()
    made.add(wanted("a", JSON_OF_SCHEMA))
    made.abort("a")
    assert not made.has_work()
    made.add(wanted("a", JSON_OF_SCHEMA))
    made.add(request("a", [5, 6], max_tokens=3))  # replaced
    assert len(finish(made)["a", 0].ids) == 3


@pytest.mark.parametrize(
    ("options", "check"),
    [
        ({"min_tokens": 20}, lambda ids: len(ids) > 20),
        ({"min_tokens": 60}, lambda ids: len(ids) == 60),
        ({"ignore_eos": True, "max_tokens": 30}, lambda ids: len(ids) == 30 and EOS not in ids),
        ({"logit_bias": {EOS: 100.0}}, lambda ids: ids == [3, EOS]),
        ({"logit_bias": {4: 100.0}, "max_tokens": 5}, lambda ids: ids[0] == 3),
        ({"stop_token_ids": [3]}, lambda ids: ids == [3]),
    ],
)
def test_the_grammar_holds_with_other_options(options: dict[str, Any], check: Callable[[list[int]], bool]) -> None:
    """`a+`, where the end is allowed after every token."""
    ids = generate(engine(), [wanted("a", grammar("regex", "a+"), **options)])["a", 0].ids
    assert set(text(ids)) == {"a"}
    assert check(ids)


def test_a_complete_output_ends_below_min_tokens() -> None:
    choice = generate(engine(), [wanted("a", grammar("regex", "ax"), min_tokens=9, ignore_eos=True)])["a", 0]
    assert (text(choice.ids), choice.reason, choice.stop_token) == ("ax", "stop", None)


def test_logprobs_are_the_model_s_own() -> None:
    free = generate(engine(), [request("a", [5, 6, 7], max_tokens=1, logprobs=3)])["a", 0]
    masked = generate(engine(), [wanted("a", grammar("regex", "x"), logprobs=3)])["a", 0]
    assert masked.logprobs[0].top == free.logprobs[0].top
    assert masked.logprobs[0].chosen.id == TOKENS.index(b"x")


def test_automata_are_shared_and_freed(compiler: GrammarCompiler) -> None:
    first, second = compiler.matcher(JSON_OF_SCHEMA), compiler.matcher(JSON_OF_SCHEMA)
    assert first._compiled is second._compiled
    kept = len(compiler._in_use)
    del first, second
    assert len(compiler._in_use) == kept - 1
