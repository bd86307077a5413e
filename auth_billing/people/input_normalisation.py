"""Validates and normalises what users type: e-mail addresses, and names of people, projects and organisations.

Names are plain text: each page that shows one must escape it. Ownership of an e-mail address is not verified.
"""

from __future__ import annotations

import re
import unicodedata

from auth_billing.errors import UnacceptableValue

MAX_NAME = 100
MAX_EMAIL = 254
RESERVED_DOMAIN = ".localhost"
"""Domains that receive no mail (RFC 6761, section 6.3): their addresses are for accounts that Headrace makes."""

# The subset of RFC 5321 that is in use, with letters of any script. No quotes, no comments, no characters that could
# end a header, and no encoded words (RFC 2047, "=?utf-8?q?...?="), which a header would decode to such characters.
_LABEL = r"[^\W_](?:[\w-]{0,61}[^\W_])?"
_EMAIL = re.compile(rf"(?!.*=\?)[\w!#$%&'*+/=?^`{{|}}~-]+(?:\.[\w!#$%&'*+/=?^`{{|}}~-]+)*@{_LABEL}(?:\.{_LABEL})*")


def checked_email(text: str) -> str:
    """Check an e-mail address and return it in its normal form (NFKC), without surrounding spaces.

    Raises:
        UnacceptableValue: the text is not an e-mail address, or a reserved one.
    """
    normal = unicodedata.normalize("NFKC", text[: MAX_EMAIL + 1]).strip()
    if len(text) > MAX_EMAIL or len(normal) > MAX_EMAIL or not _EMAIL.fullmatch(normal):
        raise UnacceptableValue("email", "This is not an e-mail address.")
    if is_reserved(normal):
        raise UnacceptableValue("email", "Addresses below .localhost are reserved.")
    return normal


def is_reserved(email: str) -> bool:
    """Return whether an e-mail address is one that Headrace makes for its own accounts, and that receives no mail."""
    return fold_email(email).endswith(RESERVED_DOMAIN)


def fold_email(email: str) -> str:
    """Return the case-folded form of an e-mail address, by which two spellings of one address compare equal."""
    return unicodedata.normalize("NFKC", email.casefold())


def checked_name(text: str, param: str = "name") -> str:
    """Check a display name (of a person, project or organisation) and return it in its normal form (NFC).

    `param` is the field's name in the error.

    Raises:
        UnacceptableValue: the name is empty, too long, or has invisible characters.
    """
    normal = unicodedata.normalize("NFC", text[: MAX_NAME + 1]).strip()
    if not normal or len(text) > MAX_NAME:
        raise UnacceptableValue(param, f"A name has 1 to {MAX_NAME} characters.")
    if any(unicodedata.category(character) in ("Cc", "Cf", "Cs", "Zl", "Zp") for character in normal):
        raise UnacceptableValue(param, "A name has no control characters.")
    return normal
