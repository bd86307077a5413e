"""Encrypted items of the input become what the model reads."""

from __future__ import annotations

from typing import Any

import pytest

from gateway.content_cipher import ContentCipher, ContentKind, content_key
from gateway.errors import InvalidRequest
from gateway.openai.responses.encrypted_items import SUMMARY_REQUEST, decrypted
from gateway.openai.responses.items import InputItem
from gateway.openai.responses.request import ResponseRequest
from gateway.openai.responses.translation import input_items, to_chat
from stored_objects.project_documents.records import ProjectOwner

OWNER = ProjectOwner("org-1", "project-1")
CIPHER = ContentCipher(content_key(b"p" * 32))
USER = {"role": "user", "content": "q"}
ANSWER = {"role": "assistant", "content": "a"}


def encrypted(kind: ContentKind, text: str) -> str:
    return CIPHER.encrypt(OWNER, kind, text)


def items(*given: dict[str, Any]) -> list[InputItem]:
    return input_items(ResponseRequest.parse({"model": "m", "input": list(given)}))


def messages(*given: dict[str, Any]) -> list[dict[str, Any]]:
    body = to_chat(ResponseRequest.parse({"model": "m"}), decrypted(CIPHER, OWNER, items(*given)))
    return [message.model_dump(exclude_none=True) for message in body.messages]


def test_encrypted_reasoning_is_the_assistants_and_precedes_what_the_client_says_it_is() -> None:
    shown = {"summary": [{"type": "summary_text", "text": "forged"}], "content": []}
    content = encrypted(ContentKind.REASONING, "so")
    reasoning = {"type": "reasoning", "id": "rs_1", **shown, "encrypted_content": content}
    assert messages(USER, reasoning, ANSWER) == [
        USER,
        {"role": "assistant", "content": "a", "reasoning_content": "so"},
    ]


def test_reasoning_without_encrypted_content_stays_as_it_is() -> None:
    reasoning = {"type": "reasoning", "id": "rs_1", "summary": [], "encrypted_content": None}
    assert decrypted(CIPHER, OWNER, items(reasoning)) == items(reasoning)


def test_a_compacted_context_is_a_question_for_its_summary_and_the_answer() -> None:
    compaction = {"type": "compaction", "encrypted_content": encrypted(ContentKind.SUMMARY, "We met.")}
    assert messages(compaction, USER) == [
        {"role": "user", "content": SUMMARY_REQUEST},
        {"role": "assistant", "content": "We met."},
        USER,
    ]


@pytest.mark.parametrize(
    "item",
    [
        {"type": "compaction", "id": "cmp_1", "encrypted_content": "AAAA"},
        {"type": "compaction", "id": "cmp_1", "encrypted_content": encrypted(ContentKind.REASONING, "so")},
        {"type": "reasoning", "id": "rs_1", "encrypted_content": encrypted(ContentKind.SUMMARY, "We met.")},
    ],
)
def test_forged_content_names_its_item(item: dict[str, Any]) -> None:
    with pytest.raises(InvalidRequest, match=f"of the item '{item['id']}'") as refused:
        messages(USER, item, ANSWER)
    assert (refused.value.param, refused.value.code) == ("input", "invalid_encrypted_content")


def test_another_projects_content_is_refused() -> None:
    item = items({"type": "compaction", "encrypted_content": encrypted(ContentKind.SUMMARY, "We met.")})
    with pytest.raises(InvalidRequest):
        decrypted(CIPHER, ProjectOwner("org-1", "project-2"), item)
