"""Encrypted contents: read again by their project only, and only as what they are."""

from __future__ import annotations

import base64

import pytest

from gateway.content_cipher import ContentCipher, ContentForged, ContentKind, content_key
from stored_objects.project_documents.records import ProjectOwner

OWNER = ProjectOwner("org-1", "project-1")
CIPHER = ContentCipher(content_key(b"p" * 32))
TEXT = "Zażółć, because 2 < 3.\n"


def test_a_text_is_read_again_and_is_not_in_its_encryption() -> None:
    encrypted = CIPHER.encrypt(OWNER, ContentKind.REASONING, TEXT)
    assert CIPHER.decrypt(OWNER, ContentKind.REASONING, encrypted) == TEXT
    assert b"because" not in base64.urlsafe_b64decode(encrypted)
    assert CIPHER.encrypt(OWNER, ContentKind.REASONING, TEXT) == encrypted
    same_pepper = ContentCipher(content_key(b"p" * 32))
    assert same_pepper.decrypt(OWNER, ContentKind.REASONING, encrypted) == TEXT


@pytest.mark.parametrize(
    ("cipher", "owner", "kind"),
    [
        (CIPHER, ProjectOwner("org-1", "project-2"), ContentKind.REASONING),
        (CIPHER, ProjectOwner("org-2", "project-1"), ContentKind.REASONING),
        (CIPHER, ProjectOwner("org-1project-1", ""), ContentKind.REASONING),
        (CIPHER, OWNER, ContentKind.SUMMARY),
        (ContentCipher(content_key(b"q" * 32)), OWNER, ContentKind.REASONING),
    ],
)
def test_another_project_kind_or_installation_reads_nothing(
    cipher: ContentCipher, owner: ProjectOwner, kind: ContentKind
) -> None:
    encrypted = CIPHER.encrypt(OWNER, ContentKind.REASONING, TEXT)
    with pytest.raises(ContentForged):
        cipher.decrypt(owner, kind, encrypted)


def test_every_altered_byte_is_noticed() -> None:
    data = base64.urlsafe_b64decode(CIPHER.encrypt(OWNER, ContentKind.REASONING, TEXT))
    altered = [data[:place] + bytes([data[place] ^ 1]) + data[place + 1 :] for place in range(len(data))]
    for each in (*altered, data[:-1], data + b"\0", data[:16], b""):
        with pytest.raises(ContentForged):
            CIPHER.decrypt(OWNER, ContentKind.REASONING, base64.urlsafe_b64encode(each).decode())


@pytest.mark.parametrize("encrypted", ["", "AA", "no base64!", "ł" * 24, "\ud800" * 24, "A" * 24])
def test_what_is_no_encrypted_content_is_refused(encrypted: str) -> None:
    with pytest.raises(ContentForged):
        CIPHER.decrypt(OWNER, ContentKind.REASONING, encrypted)
