"""The form in which texts are checked: without invisible characters, with which a blocked phrase could be written."""

from __future__ import annotations

import re
from itertools import islice

from runtime.unicode_sections import normal_sections

_RANGES = (
    "\\u00AD\\u034F\\u0600-\\u0605\\u061C\\u06DD\\u070F\\u0890\\u0891\\u08E2\\u115F\\u1160\\u17B4\\u17B5\\u180B-\\u180F"
    "\\u200B-\\u200F\\u202A-\\u202E\\u2060-\\u206F\\u3164\\uD800-\\uDFFF\\uFE00-\\uFE0F\\uFEFF\\uFFA0\\uFFF0-\\uFFFB"
    "\\U000110BD\\U000110CD\\U00013430-\\U0001343F\\U0001BCA0-\\U0001BCA3\\U0001D173-\\U0001D17A"
    "\\U000E0000-\\U000E0FFF"
)
"""Unicode's default-ignorable code points, the others of the category Cf, and lone surrogates, which match nothing."""
_INVISIBLE = re.compile(f"[{_RANGES}]+")
_VISIBLE = re.compile(f"[^{_RANGES}]")


def visible(text: str) -> str:
    """Return `text` without its invisible characters."""
    return _INVISIBLE.sub("", text)


def checked_form(text: str) -> str:
    """Return the form of a text that rules and classifiers read: NFKC, without invisible characters."""
    return "".join(normal_sections("NFKC", visible(text)))


def start_of_last(text: str, count: int) -> int:
    """Return the index in `text` from which it has `count` visible characters to its end; 0 if it has fewer."""
    if not _INVISIBLE.search(text, max(0, len(text) - count)):
        return max(0, len(text) - count)
    first = next(islice(_VISIBLE.finditer(text[::-1]), count - 1, None), None)
    return 0 if first is None else len(text) - first.end()
