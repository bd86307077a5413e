"""Predicts a sequence's next tokens from what followed the same tokens before: n-gram drafts for speculation.

Saxena 2023 ("Prompt Lookup Decoding"): answers repeat their prompt and themselves (quotes, edits, extracted fields,
code). The last two tokens are looked up among earlier ones, and the tokens after that match are the prediction. While
predictions are right, or only single tokens differ, the prediction continues along the same match. A step costs a few
operations, independent of the sequence's length.

A lookup also estimates how likely its predictions are, from how many of the last ones in a row were right. Every
prediction is checked against the token that was sampled, whether or not it was computed as a draft.
"""

from __future__ import annotations

from array import array
from collections.abc import Iterator

MAX_MATCH = 8
"""Length from which all matches share one acceptance estimate."""
WINDOW = 16_384
"""At most twice this many of the latest tokens are indexed."""
LEARNING_RATE = 1 / 8
FIRST_PROBABILITIES = (0.15, 0.4, 0.4, 0.5, 0.6, 0.65, 0.7, 0.8, 0.9)
"""Initial acceptance probabilities by length of the match, measured on chats and on tasks that edit a text."""


class PromptLookup:
    """The n-gram index of one sequence and the predictions for its next tokens."""

    def __init__(self) -> None:
        self._probabilities = list(FIRST_PROBABILITIES)
        self._begin(0)

    def _begin(self, position: int) -> None:
        """Restart the index at `position`, without a prediction."""
        self._first = self._read = position
        self._latest: dict[tuple[int, int], int] = {}
        """Position after the latest occurrence of each pair of tokens, if a token is there."""
        self._place, self._length = -1, 0
        """Position of the token that is predicted to come next (-1: none), and how many tokens before it match."""

    def read(self, token_ids: array[int]) -> None:
        """Index the tokens that were appended to the sequence since the last call, and check the predictions of them.

        `token_ids` are all tokens of the sequence.
        """
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

    def predictions(self, token_ids: array[int]) -> Iterator[tuple[int, float]]:
        """Yield the predicted next token ids, each with the probability (0 to 1) that it and all before it are right.

        Empty if nothing matches, otherwise endless: past the sequence's end, predictions are read from earlier
        predictions.

        Args:
            token_ids: the tokens as last given to `read`.
        """
        predicted: list[int] = []
        probability = 1.0
        while self._place >= 0:
            place = self._place + len(predicted)
            token = token_ids[place] if place < len(token_ids) else predicted[place - len(token_ids)]
            probability *= self._probabilities[min(self._length + len(predicted), MAX_MATCH)]
            predicted.append(token)
            yield token, probability

    def _check(self, right: bool) -> None:
        """Update the estimate by one outcome, and keep to the same match: perhaps only a single token differs."""
        self._probabilities[self._length] += (right - self._probabilities[self._length]) * LEARNING_RATE
        self._length = min(self._length + 1, MAX_MATCH) if right else 0
        self._place += 1

    def _look_up(self, pair: tuple[int, int]) -> None:
        place = self._latest.get(pair)
        if place is not None:
            self._place, self._length = place, 2
