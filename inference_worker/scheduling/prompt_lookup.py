"""Guesses what follows in a sequence from what followed the same words before in it.

Saxena 2023 ("Prompt Lookup Decoding"): answers repeat their prompt and themselves (quotes, edits, extracted fields,
code). The latest two tokens are looked up in what came before, and what followed them there is guessed to follow now.
While that is right, or only a token here and there is exchanged, the guess goes on along the same place. A step costs
a few operations however long the sequence is.

A lookup also learns how often its guesses come true, by how many have just done so; a guess is checked against the
token that came whether or not anybody computed it as a draft. Plain numbers: knows no blocks or models.
"""

from __future__ import annotations

from array import array
from collections.abc import Iterator

LONGEST = 8
"""Longer matches are not told apart."""
WINDOW = 16_384
"""At most twice so many of the latest tokens are indexed."""
LEARNING_RATE = 1 / 8
FIRST_CHANCES = (0.15, 0.4, 0.4, 0.5, 0.6, 0.65, 0.7, 0.8, 0.9)
"""By length of the match, before anything was learnt: measured on chats and texts that are worked on."""


class PromptLookup:
    """The index over one sequence and the guess for its next token."""

    def __init__(self) -> None:
        self._chances = list(FIRST_CHANCES)
        self._begin(0)

    def _begin(self, position: int) -> None:
        """Index tokens from `position` on; nothing is guessed yet."""
        self._first = self._read = position
        self._latest: dict[tuple[int, int], int] = {}
        """From a pair of tokens to the place behind its latest occurrence, if a token is there."""
        self._place, self._length = -1, 0
        """Where the token stands that should come next (-1: nowhere), and how many tokens before it match."""

    def read(self, token_ids: array[int]) -> None:
        """Take in the tokens that have come since the last time."""
        if len(token_ids) - self._first > 2 * WINDOW:
            self._begin(len(token_ids) - WINDOW)
        for position in range(self._read, len(token_ids)):
            if self._place >= 0:
                self._check(token_ids[self._place] == token_ids[position])
            if position >= self._first + 2:
                self._latest[token_ids[position - 2], token_ids[position - 1]] = position
        self._read = len(token_ids)
        if self._length < 2 and self._read >= self._first + 2:
            self._look_up((token_ids[-2], token_ids[-1]))

    def guesses(self, token_ids: array[int]) -> Iterator[tuple[int, float]]:
        """The tokens that should come next, each with the chance that it and all before it are right.

        Without end, or empty if nothing matches. Where the match reaches the end, the guesses go on with themselves.

        Args:
            token_ids: as last read.
        """
        guessed: list[int] = []
        chance = 1.0
        while self._place >= 0:
            place = self._place + len(guessed)
            token = token_ids[place] if place < len(token_ids) else guessed[place - len(token_ids)]
            chance *= self._chances[min(self._length + len(guessed), LONGEST)]
            guessed.append(token)
            yield token, chance

    def _check(self, right: bool) -> None:
        """Learn from a guess, and go on along the same place: a single token may have been exchanged there."""
        self._chances[self._length] += (right - self._chances[self._length]) * LEARNING_RATE
        self._length = min(self._length + 1, LONGEST) if right else 0
        self._place += 1

    def _look_up(self, pair: tuple[int, int]) -> None:
        place = self._latest.get(pair)
        if place is not None:
            self._place, self._length = place, 2
