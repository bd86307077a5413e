"""Estimates how many tokens a text has for a model, whose tokenizer the gateway does not have (ADR 0002)."""

from __future__ import annotations

import re

ENGLISH_LETTERS = 3.2
"""Letters of a word per token in a text of ASCII words; a word has at least one token."""
FOREIGN_LETTERS = 2.0
"""The same in a text with letters beyond ASCII, as the vocabularies of English models have its words."""
FOREIGN_SHARE = 20
"""A text is such a one if every so many words one has letters beyond ASCII."""
DIGITS = 2
"""Digits of a number per token."""
_PIECES = re.compile(r"([A-Za-z]+)|([0-9]+)|([\u00c0-\u036f]+)|[^\W\d_]|[^\w\s]|_")
"""Latin words, numbers, other Latin letters; each letter of another script and each sign is a token."""


def estimated_tokens(text: str) -> int:
    """Return the number of tokens of `text`, more often too high than too low."""
    words = text.split()
    foreign = sum(not word.isascii() for word in words) * FOREIGN_SHARE >= max(1, len(words))
    per_token = FOREIGN_LETTERS if foreign else ENGLISH_LETTERS
    return int(sum(_tokens_of(word, per_token) for word in words) + 0.999)


def _tokens_of(word: str, per_token: float) -> float:
    count = 0.0
    letters = 0
    for piece in _PIECES.finditer(word):
        if piece[1] or piece[3]:
            letters += len(piece[0])
            continue
        if letters:
            count, letters = count + max(1.0, letters / per_token), 0
        count += -(-len(piece[2]) // DIGITS) if piece[2] else 1
    return count + (max(1.0, letters / per_token) if letters else 0.0)
