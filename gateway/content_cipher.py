"""Encrypts texts that clients keep and send back: reasoning and compacted contexts, which only their project may use.

AES-SIV (RFC 5297) under a key derived from the installation's pepper, so that every gateway can decrypt what another
one has encrypted. Equal texts of a project give equal ciphertexts, so that a response can be written again.
"""

from __future__ import annotations

import base64
import binascii
import hashlib
import hmac
from enum import StrEnum

from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.ciphers.aead import AESSIV

from stored_objects.project_documents.records import ProjectOwner


class ContentKind(StrEnum):
    """What an encrypted text is; one kind can't be sent back as another one."""

    REASONING = "reasoning"
    SUMMARY = "summary"


class ContentForged(Exception):
    """Raised for an encrypted text that was altered, or that is not of this kind, project and installation."""


def content_key(pepper: bytes) -> bytes:
    """Derive the key of encrypted texts (64 bytes) from the secret pepper, which the key does not reveal."""
    return hmac.digest(pepper, b"response:contents", hashlib.sha512)  # the colon is in no API key's secret


class ContentCipher:
    """Encrypts and decrypts texts for projects.

    Args:
        key: of `content_key`.
    """

    def __init__(self, key: bytes) -> None:
        self._cipher = AESSIV(key)

    def encrypt(self, owner: ProjectOwner, kind: ContentKind, text: str) -> str:
        """Return a text that only `decrypt` with the same owner and kind can read, in ASCII."""
        encrypted = self._cipher.encrypt(text.encode(errors="replace"), _bound_to(owner, kind))
        return base64.urlsafe_b64encode(encrypted).decode()

    def decrypt(self, owner: ProjectOwner, kind: ContentKind, encrypted: str) -> str:
        """Return the text that `encrypt` was given.

        Raises:
            ContentForged: the text was altered, or is not of this owner and kind.
        """
        try:
            data = base64.b64decode(encrypted, altchars=b"-_", validate=True)
            return self._cipher.decrypt(data, _bound_to(owner, kind)).decode()
        except (InvalidTag, ValueError, binascii.Error) as error:
            raise ContentForged from error


def _bound_to(owner: ProjectOwner, kind: ContentKind) -> list[bytes]:
    return [each.encode() for each in (kind, owner.organisation, owner.project)]
