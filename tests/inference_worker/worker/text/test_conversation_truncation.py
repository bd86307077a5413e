"""A conversation that is too long loses its oldest turns, whole."""

from __future__ import annotations

import random
from typing import Any

import pytest

from inference_worker.worker.text.conversation_truncation import MAX_RENDERINGS, shortened_ids
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


class Template:
    """A template that adds as many tokens as `added`, and counts its renderings; a message has its text's tokens."""

    def __init__(self, added: int = 0) -> None:
        self.added = added
        self.renderings = 0

    def __call__(self, prompt: ChatPrompt) -> list[int]:
        self.renderings += 1
        return [0] * self.added + [1] * sum(3 + len(each["content"]) // 4 for each in prompt.messages)


def talk(sizes: list[int]) -> list[dict[str, Any]]:
    """A system message and turns of a question and an answer of these sizes each."""
    turns = [{"role": role, "content": "x" * size} for size in sizes for role in ("user", "assistant")]
    return [{"role": "system", "content": "y" * 80}, *turns]


@pytest.mark.parametrize("added", [0, 600])
@pytest.mark.parametrize("seed", range(10))
def test_a_long_conversation_is_rendered_a_few_times(added: int, seed: int) -> None:
    drawn = random.Random(seed)
    messages = talk([drawn.randrange(400) for _ in range(300)])
    template = Template(added)
    found = shortened_ids(ChatPrompt(messages=messages), template, 1000)
    assert template.renderings <= MAX_RENDERINGS
    shorter = [[messages[0], *messages[start:]] for start in range(1, len(messages), 2)]
    assert found == next(ids for each in shorter if len(ids := template(ChatPrompt(messages=each))) <= 1000)


def test_the_renderings_are_limited_also_if_sizes_say_nothing() -> None:
    messages, renderings = talk([40] * 1000), 0

    def ids_of(prompt: ChatPrompt) -> list[int]:  # too long until the last turn
        nonlocal renderings
        renderings += 1
        return [1] * (9 if len(prompt.messages) <= 3 else 11)

    assert len(shortened_ids(ChatPrompt(messages=messages), ids_of, 10)) == 9
    assert renderings <= MAX_RENDERINGS
