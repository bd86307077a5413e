"""Finds stop strings in text that arrives in pieces, and says how much of it may already be shown.

The automaton of Knuth, Morris and Pratt (1977), one per stop string, fed character by character: its state is
the length of the longest end of the text that begins a stop string, which is exactly what must be held back.
So the result does not depend on how the text was cut, and each character costs amortised constant time.

The first stop string to be *completed* ends the text; of several completed by the same character, the longest.
"""

from __future__ import annotations

from collections.abc import Sequence


class StopStrings:
    """Matches one text against a few stop strings."""

    def __init__(self, stops: Sequence[str]) -> None:
        self._automata = [_Automaton(stop) for stop in sorted(filter(None, stops), key=len, reverse=True)]

    @property
    def held_back(self) -> int:
        """Characters at the end of the text that may be the beginning of a stop string."""
        return max([automaton.matched for automaton in self._automata], default=0) if self._automata else 0

    def push(self, text: str) -> tuple[str, int] | None:
        """Take the next piece; returns the stop string completed in it and how much of `text` it needed."""
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
        """Take a character; whether the pattern is complete."""
        while self.matched and self.pattern[self.matched] != character:
            self.matched = self._fallback[self.matched - 1]
        if self.pattern[self.matched] == character:
            self.matched += 1
        return self.matched == len(self.pattern)


def _borders(pattern: str) -> list[int]:
    """For each prefix, the length of its longest proper prefix that is also its end."""
    borders = [0] * len(pattern)
    length = 0
    for index in range(1, len(pattern)):
        while length and pattern[index] != pattern[length]:
            length = borders[length - 1]
        if pattern[index] == pattern[length]:
            length += 1
        borders[index] = length
    return borders
