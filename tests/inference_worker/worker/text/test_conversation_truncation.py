"""A conversation that is too long loses its oldest turns, whole."""

from __future__ import annotations

from typing import Any

import pytest

from inference_worker.worker.text.conversation_truncation import shortened_ids
from router.messages import ChatPrompt

TALK = ["system 0", "user 1", "assistant 2", "tool 3", "assistant 4", "user 5", "assistant 6", "user 7"]


def messages(*named: str) -> list[dict[str, Any]]:
    return [{"role": each.split()[0], "content": each.split()[1]} for each in named]


def kept(space: int, *named: str) -> list[int]:
    """The messages that stay, if each is a token."""
    prompt = ChatPrompt(messages=messages(*named))
    return shortened_ids(prompt, lambda each: [int(message["content"]) for message in each.messages], space)


@pytest.mark.parametrize(
    ("space", "expected"),
    [
        (8, [0, 1, 2, 3, 4, 5, 6, 7]),
        (7, [0, 5, 6, 7]),
        (4, [0, 5, 6, 7]),
        (3, [0, 7]),
        (2, [0, 7]),
        (1, [0, 7]),
    ],
)
def test_as_few_turns_as_needed_are_left_out(space: int, expected: list[int]) -> None:
    assert kept(space, *TALK) == expected


def test_a_conversation_of_one_turn_stays() -> None:
    assert kept(1, "user 1", "assistant 2") == [1, 2]
    assert kept(1, "system 1", "developer 2") == [1, 2]


def test_every_length_of_many_turns() -> None:
    named = [each for number in range(1, 40, 2) for each in (f"user {number}", f"assistant {number + 1}")]
    for space in range(2, 41):
        found = kept(space, *named)
        assert found == list(range(41 - len(found), 41))
        assert space - 1 <= len(found) <= space
