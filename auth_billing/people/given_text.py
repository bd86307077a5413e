"""What people write about themselves and their organisation: what is accepted, and in which form it is kept.

Names are text and nothing else: whoever shows one escapes it. Whether an address belongs to the person is not known.
"""

from __future__ import annotations

import re
import unicodedata

from auth_billing.errors import UnacceptableValue

MAX_NAME = 100
MAX_EMAIL = 254

# The part of RFC 5321 that mail is really sent to; letters of any script. No quotes, no comments, nothing that could
# end a header.
_LABEL = r"[^\W_](?:[\w-]{0,61}[^\W_])?"
_EMAIL = re.compile(rf"[\w!#$%&'*+/=?^`{{|}}~-]+(?:\.[\w!#$%&'*+/=?^`{{|}}~-]+)*@{_LABEL}(?:\.{_LABEL})*")


def checked_email(text: str) -> str:
    """An e-mail address in its normal form (NFKC).

    Raises:
        UnacceptableValue: it is none.
    """
    normal = unicodedata.normalize("NFKC", text[: MAX_EMAIL + 1]).strip()
    if len(text) > MAX_EMAIL or len(normal) > MAX_EMAIL or not _EMAIL.fullmatch(normal):
        raise UnacceptableValue("email", "This is not an e-mail address.")
    return normal


def fold_email(email: str) -> str:
    """The form in which two spellings of one address are equal."""
    return unicodedata.normalize("NFKC", email.casefold())


def checked_name(text: str, param: str = "name") -> str:
    """A name of a person, a project or an organisation, in its normal form (NFC); `param` names the field.

    Raises:
        UnacceptableValue: it is empty, too long, or has characters that can't be seen.
    """
    normal = unicodedata.normalize("NFC", text[: MAX_NAME + 1]).strip()
    if not normal or len(text) > MAX_NAME:
        raise UnacceptableValue(param, f"A name has 1 to {MAX_NAME} characters.")
    if any(unicodedata.category(character) in ("Cc", "Cf", "Cs", "Zl", "Zp") for character in normal):
        raise UnacceptableValue(param, "A name has no control characters.")
    return normal
