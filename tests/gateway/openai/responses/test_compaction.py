"""What of a context is summarised, and what is kept as it is."""

from __future__ import annotations

from typing import Any

import pytest

from gateway.openai.responses.compaction import PROMPT, Compaction, CompactionRequest, whole_sentences
from gateway.openai.responses.translation import input_items

ID = f"resp_{7:032x}"
SYSTEM = {"role": "developer", "content": "Be brief."}
USER = {"role": "user", "content": "q"}
ANSWER = {"role": "assistant", "content": "a"}
CALL = {"type": "function_call", "call_id": "a", "name": "f", "arguments": "{}"}
OUTPUT = {"type": "function_call_output", "call_id": "a", "output": "4"}


def compaction(*given: dict[str, Any]) -> Compaction:
    return Compaction(input_items(CompactionRequest.parse({"model": "m", "input": list(given)})))


def output(*given: dict[str, Any]) -> list[str]:
    """The text of each kept message, "*" for the summary."""
    items = compaction(*given).output(ID, "AAAA")
    assert [item["id"].partition("_")[2][:32] for item in items] == [f"{7:032x}"] * len(items)
    assert len({item["id"] for item in items}) == len(items)
    return ["*" if item["type"] == "compaction" else item["content"][0]["text"] for item in items]


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        ((USER, ANSWER), ["*"]),
        ((SYSTEM, USER, ANSWER), ["Be brief.", "*"]),
        ((USER, ANSWER, {**USER, "content": "x"}, {**USER, "content": "y"}), ["*", "x", "y"]),
        ((SYSTEM, USER, CALL, OUTPUT), ["Be brief.", "*"]),
        ((USER,), ["*"]),
        ((SYSTEM, USER), ["Be brief.", "*"]),
    ],
)
def test_first_instructions_and_last_questions_are_kept(given: tuple[dict[str, Any], ...], expected: list[str]) -> None:
    assert output(*given) == expected


@pytest.mark.parametrize(
    ("text", "whole"),
    [
        ("Ada asked. She wan", "Ada asked."),
        ('She said "Yes." Then (no', 'She said "Yes."'),
        ("- goals: 1.5 million\n- na", "- goals: 1.5 million"),
        ("Łódź? Tak! I co", "Łódź? Tak!"),
        ("Ada asked.", "Ada asked."),
        ("0 1 2 3.5", ""),
    ],
)
def test_a_summary_that_was_cut_off_ends_with_its_last_whole_sentence(text: str, whole: str) -> None:
    assert whole_sentences(text) == whole


def test_the_model_is_asked_for_a_summary_of_what_is_not_kept() -> None:
    body = CompactionRequest.parse({"model": "m", "instructions": "Speak Polish.", "service_tier": "flex"})
    asked = compaction(SYSTEM, USER, ANSWER, {**USER, "content": "new"}).summary_request(body)
    assert [(message.role, message.content) for message in asked.messages] == [
        ("system", "Speak Polish."),
        ("developer", "Be brief."),
        ("user", "q"),
        ("assistant", "a"),
        ("user", PROMPT),
    ]
    assert (asked.model, asked.service_tier, asked.reasoning_effort) == ("m", "flex", "none")
    assert asked.tools_off == ["*"]
