"""Fields of completions that depend on one another."""

from __future__ import annotations

from typing import Any

import pytest

from gateway.errors import InvalidRequest
from gateway.openai.completions import DEFAULT_MAX_TOKENS, CompletionRequest


def parse(**fields: Any) -> CompletionRequest:
    return CompletionRequest.parse({"model": "m", "prompt": "a", **fields})


def test_the_default_token_limit_is_the_specifications() -> None:
    assert parse().token_limit == DEFAULT_MAX_TOKENS == 16
    assert parse(max_tokens=0).token_limit == 0


@pytest.mark.parametrize(
    ("fields", "count", "returns_prompt"),
    [
        ({}, None, False),
        ({"logprobs": 2}, None, False),
        ({"echo": True}, None, True),
        ({"echo": True, "logprobs": 2}, 2, True),
        ({"echo": True, "logprobs": 2, "prompt_logprobs": 4}, 4, True),
        ({"prompt_logprobs": 0}, 0, True),
        ({"return_token_ids": True}, None, True),
    ],
)
def test_parts_of_the_prompt_in_the_answer(fields: dict[str, Any], count: int | None, returns_prompt: bool) -> None:
    request = parse(**fields)
    assert (request.prompt_logprob_count, request.returns_prompt) == (count, returns_prompt)


def test_a_suffix_needs_text_prompts() -> None:
    assert parse(suffix="b").suffix == "b"
    with pytest.raises(InvalidRequest) as caught:
        parse(prompt=[1, 2], suffix="b")
    assert caught.value.param == "suffix"
