"""The four forms of `prompt`, and their limits."""

from __future__ import annotations

from typing import Any

import pytest

from gateway.errors import InvalidRequest
from gateway.openai.completions import CompletionRequest
from tests.gateway.conftest import MODEL

WRONG_PROMPTS: list[Any] = [None, "", [], [""], [[]], [[], [1]], ["a", 1], [1, "a"], [[1], "a"], [[1.0]], [True], [-1]]
WRONG_PROMPTS += [[[2**31]], {}, 5, ["a"] * 10_000, [[["a"]]], ["a", ""], [None]]


@pytest.mark.parametrize("prompt", WRONG_PROMPTS)
def test_wrong_prompts(prompt: Any) -> None:
    with pytest.raises(InvalidRequest) as caught:
        CompletionRequest.parse({"model": MODEL, "prompt": prompt})
    assert caught.value.param == "prompt"


def test_prompt_shapes() -> None:
    shapes: list[tuple[Any, Any]] = [
        ("a", ["a"]),
        (["a", "b"], ["a", "b"]),
        ([1, 2], [[1, 2]]),
        ([[1], [2]], [[1], [2]]),
    ]
    for given, read in shapes:
        assert CompletionRequest.parse({"model": MODEL, "prompt": given}).prompt == read
