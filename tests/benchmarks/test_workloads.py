from __future__ import annotations

import numpy as np
import pytest

from benchmarks import workloads


def test_the_same_seed_gives_the_same_requests() -> None:
    assert workloads.chat(20, 1000, seed=3) == workloads.chat(20, 1000, seed=3)
    assert workloads.chat(20, 1000, seed=3) != workloads.chat(20, 1000, seed=4)


def test_lengths_follow_the_published_medians() -> None:
    requests = workloads.chat(1000, 49152)
    assert np.median([len(r.prompt_ids) for r in requests]) == pytest.approx(110, rel=0.15)
    assert np.median([r.output_tokens for r in requests]) == pytest.approx(126, rel=0.15)
    assert all(4 <= len(r.prompt_ids) <= 1024 and 4 <= r.output_tokens <= 1024 for r in requests)


def test_prompts_differ_and_stay_in_the_vocabulary() -> None:
    requests = workloads.fixed(8, 1000, 128, 64)
    assert len({tuple(r.prompt_ids) for r in requests}) == 8
    assert all(0 <= token < 1000 for r in requests for token in r.prompt_ids)
    assert all((len(r.prompt_ids), r.output_tokens) == (128, 64) for r in requests)


def test_conversations_of_a_tenant_share_a_system_prompt_and_nothing_else() -> None:
    one, other, again = workloads.shared_prefix(2, 2, 1000, turns=3, prefix=50, question=5)[:3]
    assert one.turns[0][:50] == again.turns[0][:50] != other.turns[0][:50]
    assert one.turns[0][50:] != again.turns[0][50:]
    assert [len(turn) for turn in one.turns] == [55, 5, 5]


def test_arrivals_keep_their_rate() -> None:
    arrivals = workloads.poisson(4000, 50)
    assert arrivals == sorted(arrivals)
    assert arrivals[-1] == pytest.approx(80, rel=0.15)


WORDS = [[40 + 2 * number, 41 + 2 * number][: 1 + number % 2] for number in range(1200)]


def test_questions_have_the_classes_in_equal_parts_and_no_word_twice() -> None:
    requests = workloads.questions(300, WORDS, seed=1)
    for low, high in workloads.ANSWER_CLASSES:
        assert sum(low <= request.output_tokens <= high for request in requests) == 100
    assert [request.output_tokens for request in requests[:3]] != sorted(
        request.output_tokens for request in requests[:3]
    )
    numbers = [sum(token % 2 == 0 for token in request.prompt_ids) for request in requests]  # a word's first id is even
    assert (min(numbers) >= 3, max(numbers) <= 60) == (True, True)
    assert np.mean(numbers) == pytest.approx(10, rel=0.1)
    assert all(len(set(request.prompt_ids)) == len(request.prompt_ids) for request in requests)
    assert requests == workloads.questions(300, WORDS, seed=1) != workloads.questions(300, WORDS, seed=2)


def test_worded_prompts_have_the_published_lengths() -> None:
    short, long = workloads.instructions(1000, WORDS), workloads.conversations(1000, WORDS)
    assert np.median([len(r.prompt_ids) for r in short]) == pytest.approx(16, rel=0.15)
    assert np.median([r.output_tokens for r in short]) == pytest.approx(39, rel=0.15)
    assert np.median([len(r.prompt_ids) for r in long]) == pytest.approx(110, rel=0.15)
    assert {request.temperature for request in [*short, *long]} == {1.0}
    with pytest.raises(ValueError, match="the words have"):
        workloads.conversations(50, WORDS[:10])


def test_words_are_distinct_and_of_our_texts() -> None:
    texts: list[str] = []
    words = workloads.read_words(lambda text: [texts.append(text) or len(texts)])  # type: ignore[func-returns-value]
    assert len(set(texts)) == len(texts) == len(words) > 2000
    assert {" ferry", " meridian"} <= set(texts)
