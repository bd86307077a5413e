"""Conversations as the assistant reads them, and what is left out of prompts."""

from __future__ import annotations

from typing import Any

import pytest

from assistant.conversation import Conversation, prompt_limit
from assistant.turn import Turn

SYSTEM = {"role": "system", "content": "Be kind."}


def said(*texts: str, system: bool = False) -> Conversation:
    turns = [{"role": "assistant" if number % 2 else "user", "content": text} for number, text in enumerate(texts)]
    return Conversation([SYSTEM, *turns] if system else turns)


def contents(messages: list[dict[str, Any]]) -> list[str]:
    return [each["content"] for each in messages]


def test_the_last_message_is_the_question_and_those_before_are_the_history() -> None:
    conversation = said("hi", "hello", "jaka jest pogoda?", system=True)
    assert conversation.question == "jaka jest pogoda?"
    assert conversation.history == [Turn("user", "hi"), Turn("assistant", "hello")]
    assert conversation.is_question
    assert conversation.language == "pl"


@pytest.mark.parametrize(
    "messages",
    [
        [],
        [{"role": "user", "content": "  "}],
        [{"role": "user", "content": "hi"}, {"role": "assistant", "content": "hello"}],
        [{"role": "tool", "content": "4", "tool_call_id": "x"}],
    ],
)
def test_only_a_persons_text_is_a_question(messages: list[dict[str, Any]]) -> None:
    assert not Conversation(messages).is_question


def test_messages_without_text_are_no_turns() -> None:
    conversation = Conversation([{"role": "assistant", "content": None}, {"role": "user", "content": "hi"}])
    assert conversation.history == []


def test_a_prompt_has_the_assistants_system_text_first_and_the_result_before_the_question() -> None:
    prompt = said("a", "b", "c", system=True).prompt(system="I am Ada.", tool_result="[4]", dropped=2)
    assert contents(prompt) == ["I am Ada.\n\nBe kind.", "[4]\n\nc"]
    assert contents(said("a").prompt(system="I am Ada.")) == ["I am Ada.", "a"]
    assert contents(said("a", system=True).prompt(system="")) == ["Be kind.", "a"]


def test_the_messages_of_the_request_stay_as_they_are() -> None:
    conversation = said("a", system=True)
    conversation.prompt(system="x", tool_result="y")
    assert contents([*conversation.messages]) == ["Be kind.", "a"]


def test_the_oldest_turns_go_first_and_answers_go_with_their_questions() -> None:
    conversation = said("x" * 300, "y", "z" * 300, "a", "b")
    assert conversation.turns_to_drop(limit=1000, extra=0) == 0
    assert conversation.turns_to_drop(limit=200, extra=0) == 2
    assert conversation.turns_to_drop(limit=200, extra=300) == 4
    assert conversation.turns_to_drop(limit=1, extra=0) == 4


def test_the_last_message_always_stays() -> None:
    assert said("x" * 9000).turns_to_drop(limit=10, extra=0) == 0
    assert said("x" * 9000).droppable == 0
    assert said("x", "y", "z", system=True).droppable == 2


def test_an_answer_is_left_as_much_room_as_it_may_take() -> None:
    assert prompt_limit(1000, None) == 750
    assert prompt_limit(1000, 100) == 900
    assert prompt_limit(1000, 5000) == 250
    assert prompt_limit(0, None) == 1


def test_images_of_left_out_messages_are_counted() -> None:
    two = {"role": "user", "content": [{"type": "image"}, {"type": "text", "text": "a"}, {"type": "image"}]}
    conversation = Conversation([{"role": "system", "content": "s"}, two, {"role": "assistant", "content": "b"}, two])
    assert [conversation.images_before(dropped) for dropped in range(3)] == [0, 2, 2]
