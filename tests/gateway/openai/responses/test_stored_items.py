"""Input items as responses keep them: as OpenAI's client reads them, and the same request when they come back."""

from __future__ import annotations

from typing import Any, cast

import pytest
from openai.types.responses import ResponseItem
from pydantic import TypeAdapter

from gateway.jobs.job_builder import chat_prompt
from gateway.openai.responses.items import InputItem
from gateway.openai.responses.request import ResponseRequest
from gateway.openai.responses.stored_items import from_stored, to_stored, without_ids
from gateway.openai.responses.translation import input_items, to_chat

ID = f"resp_{7:032x}"
ITEM: TypeAdapter[Any] = TypeAdapter(cast(Any, ResponseItem))
"""Items of OpenAI's specification, from which its client's types are generated."""

USER: dict[str, Any] = {"role": "user", "content": "hi"}
IMAGE = {
    "role": "user",
    "content": [
        {"type": "input_text", "text": "What?"},
        {"type": "input_image", "image_url": "data:image/png;base64,AA=="},
    ],
}
FILE = {"role": "user", "content": [{"type": "input_file", "file_id": "file-1", "filename": "a.txt"}]}
ASSISTANT = {"role": "assistant", "content": "Hello."}
REFUSAL = {"type": "message", "role": "assistant", "content": [{"type": "refusal", "refusal": "No."}]}
REASONING = {"type": "reasoning", "content": [{"type": "reasoning_text", "text": "Hm"}]}
CALL = {"type": "function_call", "call_id": "a", "name": "f", "arguments": "{}"}
OUTPUT = {"type": "function_call_output", "call_id": "a", "output": [{"type": "input_text", "text": "4"}]}
CUSTOM = {"type": "custom_tool_call", "call_id": "b", "name": "g", "input": "x"}
CUSTOM_OUTPUT = {"type": "custom_tool_call_output", "call_id": "b", "output": "5"}
DRAWN = {"type": "image_generation_call", "result": "AA=="}
COMPACTION = {"type": "compaction", "encrypted_content": "AA=="}
ALL = [USER, IMAGE, FILE, ASSISTANT, REFUSAL, USER, REASONING, CALL, OUTPUT, CUSTOM, CUSTOM_OUTPUT, DRAWN]


def items(*given: dict[str, Any]) -> list[InputItem]:
    return input_items(ResponseRequest.parse({"model": "m", "input": list(given)}))


def conversation(given: list[InputItem]) -> list[dict[str, Any]]:
    """The messages that a worker gets."""
    return chat_prompt(to_chat(ResponseRequest.parse({"model": "m", "input": "x"}), given), []).messages


def test_stored_items_are_what_openai_s_client_reads() -> None:
    stored = to_stored(items(*ALL), ID)
    for each in stored:
        ITEM.validate_python(each)
    prefixes = ["msg", "msg", "msg", "msg", "msg", "msg", "rs", "fc", "fco", "ctc", "ctco", "ig"]
    assert [each["id"] for each in stored] == [f"{each}_{7:032x}{n:04x}" for n, each in enumerate(prefixes)]
    assert {each["status"] for each in stored if each["type"] != "reasoning"} == {"completed"}


@pytest.mark.parametrize(("given", "part"), [(USER, "input_text"), (ASSISTANT, "output_text")])
def test_a_string_is_stored_as_a_part(given: dict[str, Any], part: str) -> None:
    (stored,) = to_stored(items(given), ID)
    (found,) = stored["content"]
    assert (stored["type"], found["type"], found["text"]) == ("message", part, given["content"])


def test_stored_items_are_the_same_conversation() -> None:
    given = items(*ALL)
    assert conversation(from_stored(to_stored(given, ID))) == conversation(given)


def test_storing_items_again_changes_nothing() -> None:
    stored = to_stored(items(*ALL), ID)
    assert to_stored(from_stored(stored), f"resp_{8:032x}") == stored


def test_a_compacted_context_is_stored_as_it_came() -> None:
    stored = to_stored(items(COMPACTION), ID)
    assert stored == [{**COMPACTION, "id": f"cmp_{7:032x}0000"}]
    ITEM.validate_python(stored[0])
    assert to_stored(from_stored(stored), ID) == stored


def test_a_client_s_ids_and_states_are_kept_unless_they_are_removed() -> None:
    given = items({**CALL, "id": "fc_mine", "status": "incomplete"}, OUTPUT)
    own, _ = to_stored(given, ID)
    assert (own["id"], own["status"]) == ("fc_mine", "incomplete")
    new, _ = to_stored(without_ids(given), ID)
    assert new == {**own, "id": f"fc_{7:032x}0000"}
    assert given[0].id == "fc_mine"
