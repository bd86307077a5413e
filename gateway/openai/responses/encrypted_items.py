"""Input items whose content a client can't read, reasoning and compacted contexts, as the items that a model gets."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from gateway.content_cipher import ContentCipher, ContentForged, ContentKind
from gateway.errors import InvalidRequest
from gateway.openai.responses.items import CompactionItem, InputItem, MessageItem, ReasoningItem, ReasoningPart
from stored_objects.project_documents.records import ProjectOwner

SUMMARY_REQUEST = "Summarise our conversation so far."
"""User's message before the summary that stands for a compacted context."""


def decrypted(cipher: ContentCipher, owner: ProjectOwner, items: Sequence[InputItem]) -> list[InputItem]:
    """Return `items` with the reasoning and the summaries that `cipher` has encrypted for `owner` as texts.

    Raises:
        InvalidRequest: An encrypted content was altered, or is another project's or installation's.
    """
    return [each for item in items for each in _decrypted(cipher, owner, item)]


def _decrypted(cipher: ContentCipher, owner: ProjectOwner, item: InputItem) -> Iterator[InputItem]:
    if isinstance(item, ReasoningItem) and item.encrypted_content is not None:
        text = _text(cipher, owner, ContentKind.REASONING, item.encrypted_content, item.id)
        yield item.model_copy(update={"content": [ReasoningPart(type="reasoning_text", text=text)]})
    elif isinstance(item, CompactionItem):
        yield MessageItem(role="user", content=SUMMARY_REQUEST)
        text = _text(cipher, owner, ContentKind.SUMMARY, item.encrypted_content, item.id)
        yield MessageItem(role="assistant", content=text)
    else:
        yield item


def _text(cipher: ContentCipher, owner: ProjectOwner, kind: ContentKind, encrypted: str, id: str | None) -> str:
    try:
        return cipher.decrypt(owner, kind, encrypted)
    except ContentForged as error:
        place = f" of the item '{id[:64]}'" if id else ""
        message = f"Invalid 'input': the encrypted content{place} could not be verified. Send it back as it came."
        raise InvalidRequest(message, param="input", code="invalid_encrypted_content") from error
