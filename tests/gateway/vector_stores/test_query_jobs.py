"""Queries that are too long for the embedding model are cut in few steps."""

from __future__ import annotations

import pytest

from gateway.openai.token_estimate import estimated_tokens
from gateway.vector_stores import query_jobs
from gateway.vector_stores.query_jobs import TOKEN_CHARACTERS, cut_query


@pytest.mark.parametrize(
    "text", ["word " * 200_000, "水" * 200_000, "水" * 600 + " " * 200_000, "a " * 500 + "水" * 9000]
)
def test_a_long_query_is_cut_in_few_steps(monkeypatch: pytest.MonkeyPatch, text: str) -> None:
    counted: list[int] = []

    def count(part: str) -> int:
        counted.append(len(part))
        return estimated_tokens(part)

    monkeypatch.setattr(query_jobs, "estimated_tokens", count)
    cut = cut_query(text, 512)
    assert text.startswith(cut)
    assert 1 <= estimated_tokens(cut) <= 512
    assert sum(counted) <= 12 * 512 * TOKEN_CHARACTERS


def test_a_short_query_stays_whole() -> None:
    assert cut_query("What is the deposit?", 512) == "What is the deposit?"
