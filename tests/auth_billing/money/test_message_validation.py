"""Validation of ids and usage in messages from other processes."""

from __future__ import annotations

import pytest

from auth_billing.money.message_validation import MAX_INT, ids_error, usage_error
from router.messages import Usage


@pytest.mark.parametrize("id", ["", "a b", "a$b", "job\n", "x" * 129, "ö"])
def test_one_malformed_id_is_an_error(id: str) -> None:
    assert ids_error("chatcmpl-1", id) is not None


def test_ids_of_jobs_and_attempts_are_accepted() -> None:
    assert ids_error("chatcmpl-1", "worker-1.a_b-2", "x" * 128) is None


@pytest.mark.parametrize(
    "usage",
    [
        Usage(prompt_tokens=-1),
        Usage(prompt_tokens=1, completion_tokens=MAX_INT + 1),
        Usage(prompt_tokens=1, cached_tokens=-1),
        Usage(prompt_tokens=1, cached_tokens=2),
        Usage(prompt_tokens=1, completion_tokens=1, reasoning_tokens=2),
    ],
)
def test_an_impossible_usage_is_an_error(usage: Usage) -> None:
    assert usage_error(usage) is not None


def test_a_possible_usage_is_accepted() -> None:
    assert usage_error(Usage(prompt_tokens=MAX_INT, completion_tokens=MAX_INT, cached_tokens=MAX_INT)) is None
