"""Finds stop strings in the streamed text of a choice, and how many characters are held back as they may begin one.

Uses the automaton of Knuth, Morris and Pratt (1977), one per stop string, fed character by character: its state is
the length of the longest suffix of the text that begins the stop string, which is exactly what must be held back.
So the result does not depend on how the text was split, and each character takes amortised constant time.

The first stop string to be *completed* ends the text; of several completed by the same character, the longest.
"""

from __future__ import annotations

from collections.abc import Sequence


class StopStrings:
    """Incremental matcher that finds the first of several stop strings completed in one text."""

    def __init__(self, stops: Sequence[str]) -> None:
        self._automata = [_Automaton(stop) for stop in sorted(filter(None, stops), key=len, reverse=True)]

    @property
    def held_back(self) -> int:
        """Number of characters at the end of the text so far that may begin a stop string, and must not be sent yet."""
        return max([automaton.matched for automaton in self._automata], default=0) if self._automata else 0

    def push(self, text: str) -> tuple[str, int] | None:
        """Add the next part of a choice's text; return the stop string that it completes, `None` if it completes none.

        With the stop string comes the length of `text` up to the end of that string.
        """
        if not self._automata:
            return None
        for count, character in enumerate(text, start=1):
            hit: str | None = None
            for automaton in self._automata:
                if automaton.push(character) and hit is None:
                    hit = automaton.pattern
            if hit is not None:
                return hit, count
        return None


class _Automaton:
    def __init__(self, pattern: str) -> None:
        self.pattern = pattern
        self.matched = 0
        self._fallback = _borders(pattern)

    def push(self, character: str) -> bool:
        """Add one character; return whether it completes the stop string. Matches in one text do not overlap."""
        if self.matched == len(self.pattern):
            self.matched = 0
        while self.matched and self.pattern[self.matched] != character:
            self.matched = self._fallback[self.matched - 1]
        if self.pattern[self.matched] == character:
            self.matched += 1
        return self.matched == len(self.pattern)


def _borders(pattern: str) -> list[int]:
    """Return, for each prefix, the length of its longest proper prefix that is also its suffix."""
    borders = [0] * len(pattern)
    length = 0
    for index in range(1, len(pattern)):
        while length and pattern[index] != pattern[length]:
            length = borders[length - 1]
        if pattern[index] == pattern[length]:
            length += 1
        borders[index] = length
    return borders
