"""Tests of prompt log probabilities under chunking, prefix caching and preemption, and of banned tokens."""

from __future__ import annotations

from typing import Any

import pytest

from inference_worker.engine.sampling import prompt_scores
from inference_worker.engine_protocol import GenerationRequest
from router.messages import SamplingParams
from tests.fakes.tiny_model import EOS, tiny_engine
from tests.inference_worker.generation import Choice, generate, prompts, request

PROMPTS = prompts(6, seed=7, longest=30)
ALTERNATIVES = 3


def wanted(**more: Any) -> list[GenerationRequest]:
    """Every second request wants them, every fifth generates nothing."""
    return [
        request(
            f"r{i}",
            prompt,
            n=1 + i % 3,
            max_tokens=0 if i % 5 == 0 else 3,
            prompt_logprobs=ALTERNATIVES if i % 2 == 0 else None,
            **more,
        )
        for i, prompt in enumerate(PROMPTS)
    ]


def by_the_model(prompt: list[int]) -> list[list[float]]:
    """Return the log probabilities of the vocabulary after each prompt token, computed one by one."""
    rows = []
    for length in range(1, len(prompt)):
        one = request("a", prompt[:length], max_tokens=1, logprobs=20)
        rows.append(generate(tiny_engine(enable_prefix_caching=False), [one])["a", 0].logprobs[0])
    return [[candidate.logprob for candidate in row.top] for row in rows]


@pytest.fixture(scope="module")
def alone() -> dict[tuple[str, int], Choice]:
    outcome: dict[tuple[str, int], Choice] = {}
    for one in wanted():
        outcome |= generate(tiny_engine(attention="reference", enable_prefix_caching=False), [one])
    return outcome


def test_prompt_logprobs_equal_the_model_s(alone: dict[tuple[str, int], Choice]) -> None:
    for i in (0, 2, 4):
        told = alone[f"r{i}", 0]
        assert [one.chosen.id for one in told.prompt_logprobs] == PROMPTS[i][1:]
        for position, row in enumerate(by_the_model(PROMPTS[i])):
            one, rank = told.prompt_logprobs[position], told.ranks[position]
            assert [top.logprob for top in one.top] == pytest.approx(row[:ALTERNATIVES], abs=1e-5)
            if rank <= 20:
                assert one.chosen.logprob == pytest.approx(row[rank - 1], abs=1e-5)
            else:
                assert one.chosen.logprob < row[-1]


def test_prompt_logprobs_are_reported_once_and_only_on_request(alone: dict[tuple[str, int], Choice]) -> None:
    for i, prompt in enumerate(PROMPTS):
        for choice in range(1 + i % 3):
            told = alone[f"r{i}", choice]
            assert len(told.ids) == (0 if i % 5 == 0 else 3)
            assert told.reason == "length"
            asked = i % 2 == 0 and choice == 0
            assert len(told.prompt_logprobs) == len(told.ranks) == (len(prompt) - 1 if asked else 0)


@pytest.mark.parametrize(
    "settings",
    [
        {},
        {"max_num_batched_tokens": 1},
        {"max_num_batched_tokens": 7},
        {"num_kv_blocks": 14, "max_model_len": 52},
        {"num_kv_blocks": 14, "max_model_len": 52, "max_num_batched_tokens": 9},
        {"max_num_seqs": 1},
        {"speculation": "ngram"},
    ],
)
def test_they_do_not_depend_on_settings(
    alone: dict[tuple[str, int], Choice], settings: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(prompt_scores, "ROWS", 5)
    engine = tiny_engine(**settings)
    for _ in range(2):  # the second time prompts could come from the cache
        outcome = generate(engine, wanted())
        for key, expected in alone.items():
            assert outcome[key].ids == expected.ids
            assert outcome[key].ranks == expected.ranks
            found = [one.chosen.logprob for one in outcome[key].prompt_logprobs]
            assert found == pytest.approx([one.chosen.logprob for one in expected.prompt_logprobs], abs=1e-4)
    assert engine.load().kv_blocks_used == 0


def test_no_choice_ends_before_the_prompt_is_scored() -> None:
    engine = tiny_engine(max_num_batched_tokens=7)
    engine.add(request("a", PROMPTS[0], n=3, max_tokens=0, prompt_logprobs=0))
    scored = 0
    while engine.has_work():
        for event in engine.step():
            scored += len(event.prompt.logprobs) if event.prompt else 0
            assert event.finish_reason is None or scored == len(PROMPTS[0]) - 1


def test_only_allowed_tokens_are_sampled() -> None:
    kinds: list[dict[str, Any]] = [{}, {"temperature": 1.0}, {"temperature": 1.0, "top_k": 50}]
    for sampling in [*kinds, {"temperature": 1.0, "top_p": 0.9}]:
        one = request("a", PROMPTS[3], n=4, max_tokens=20, allowed_token_ids=[7, 11], **sampling)
        for choice in generate(tiny_engine(), [one]).values():
            assert set(choice.ids) <= {7, 11}


def test_an_empty_allowed_list_still_yields_tokens() -> None:
    one = request("a", PROMPTS[3], allowed_token_ids=[EOS], min_tokens=4, max_tokens=6, ignore_eos=False)
    assert len(generate(tiny_engine(), [one])["a", 0].ids) <= 6


@pytest.mark.parametrize("speculation", ["off", "ngram"])
def test_bad_words_are_not_generated(speculation: str) -> None:
    free = generate(tiny_engine(), [request("a", PROMPTS[0], max_tokens=30)])["a", 0].ids
    pair, single = free[3:5], free[9]
    banned = GenerationRequest(
        id="b",
        prompt_ids=PROMPTS[0],
        sampling=SamplingParams(seed=1, temperature=0.0, max_tokens=30, ignore_eos=True),
        bad_words=[pair, [single]],
    )
    ids = generate(tiny_engine(speculation=speculation), [banned])["b", 0].ids
    assert ids[:3] == free[:3] or single in free[:3]
    assert single not in ids
    assert pair not in [ids[i : i + 2] for i in range(len(ids))]


def test_tokens_outside_the_vocabulary_are_rejected() -> None:
    engine = tiny_engine()
    engine.add(request("a", [3], allowed_token_ids=[61]))
    engine.add(GenerationRequest(id="b", prompt_ids=[3], sampling=SamplingParams(seed=1), bad_words=[[3, -1]]))
    assert {failed.request for failed in engine.failures()} == {"a", "b"}
