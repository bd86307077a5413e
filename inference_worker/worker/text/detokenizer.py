"""Token bytes to text, one token at a time, never half a character.

UTF-8's own incremental decoder does the work: bytes of an unfinished character wait for the next token,
bytes that can't be one become U+FFFD. So the pieces joined equal the whole decoded at once, however it is cut (save an
unfinished character at the very end, which is never shown).
"""

from __future__ import annotations

import codecs


class Detokenizer:
    """The decoder of one sequence."""

    def __init__(self) -> None:
        self._decoder = codecs.getincrementaldecoder("utf-8")(errors="replace")

    def push(self, data: bytes) -> str:
        """Take the bytes of one token; returns the characters that are now whole."""
        return self._decoder.decode(data)

    @property
    def between_characters(self) -> bool:
        """Whether nothing waits for the rest of a character."""
        return not self._decoder.getstate()[0]
