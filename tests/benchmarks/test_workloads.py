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
