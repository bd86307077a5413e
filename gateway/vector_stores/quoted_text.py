"""Makes text of documents safe to quote in a prompt: it can't end its quotation, and has no citation of its own.

A document can imitate both: the tag that ends the passages, so that the rest reads as the user's words, and the number
of another passage, so that an answer that repeats the number cites a file that does not say so.
"""

from __future__ import annotations

import re

OPEN, CLOSE = "<passages>", "</passages>"
"""Tags around the quoted passages of a prompt."""

_GAP = "[\\s\u00ad\u200b-\u200f\u2060-\u2064\ufeff]*"
"""White space and characters without width, which a model hardly tells from nothing."""
_TAG = re.compile(rf"[<＜]{_GAP}[/／]?{_GAP}{_GAP.join('passages')}{_GAP}[>＞]", re.IGNORECASE)
_NUMBERS = rf"\d{{1,3}}{_GAP}(?:[,;\-–]{_GAP}\d{{1,3}}{_GAP}){{0,7}}"
_CITATION = re.compile(rf"(?P<index>(?<=[\w)\]])\[)?(?(index)|[\[［【]){_GAP}(?P<numbers>{_NUMBERS})[\]］】]")


def quoted_text(text: str) -> str:
    """Return a text of a document without tags of the quotation, and without numbers in brackets that cite.

    Such numbers are put in parentheses. An index of code (`a[1]`) stays one, with spaces that a citation does not have.
    What replaces a tag or a number is no part of another.
    """
    return _CITATION.sub(_number, _TAG.sub("(passages)", text))


def _number(found: re.Match[str]) -> str:
    numbers = found["numbers"].strip()
    return f"[ {numbers} ]" if found["index"] else f"({numbers})"
