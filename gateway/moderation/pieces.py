"""Splits texts into pieces that fit into the context of a text classification model."""

from __future__ import annotations

from collections.abc import Iterator

from gateway.moderation.visible_text import checked_form
from router.model_registry import ModelInfo

MAX_PIECE_BYTES = 2000
"""Longest piece of a text that is classified at once, even if the model reads more: long texts dilute scores."""


def pieces(text: str, model: ModelInfo) -> list[str]:
    """Split a text into overlapping pieces that fit into a classifier's context; at white space where there is some.

    The pieces are of the form that rules read too, without invisible characters. Nothing is left out: a text that is
    too long is not cut, as a client could hide anything behind a long beginning.
    """
    bounds = model.prompt_bounds
    room = (model.max_model_len - bounds.per_text) // max(1, bounds.per_byte)
    room = max(16, min(room, MAX_PIECE_BYTES))
    return list(_pieces(checked_form(text).encode(errors="replace"), room))


def _pieces(data: bytes, room: int) -> Iterator[str]:
    start = 0
    while len(data) - start > room:
        space = data.rfind(b" ", start + room // 2, start + room)
        end = space if space > 0 else _character_start(data, start + room)
        yield data[start:end].decode()
        start = _character_start(data, end - room // 8)
        if space > 0 and (word := data.find(b" ", start, end)) > 0:
            start = word
    yield data[start:].decode()


def _character_start(data: bytes, at: int) -> int:
    """Return the index of the character that the byte at index `at` belongs to."""
    while data[at] & 0xC0 == 0x80:
        at -= 1
    return at
