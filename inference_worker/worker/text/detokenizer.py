"""Decodes a generated sequence's token bytes to text incrementally, in whole characters.

Bytes of an incomplete UTF-8 character wait for the next token; invalid bytes become U+FFFD. So the joined output
equals the text decoded at once (except for an incomplete character at the very end, which is never output).
"""

from __future__ import annotations

import codecs


class Detokenizer:
    """Incremental decoder of one sequence's token bytes to whole characters."""

    def __init__(self) -> None:
        self._decoder = codecs.getincrementaldecoder("utf-8")(errors="replace")

    def push(self, data: bytes) -> str:
        """Add the bytes of the next token; return the whole characters that are now complete, "" if none is."""
        return self._decoder.decode(data)

    @property
    def between_characters(self) -> bool:
        """Whether the bytes added so far end with a complete character, so that no part of one is held back."""
        return not self._decoder.getstate()[0]
