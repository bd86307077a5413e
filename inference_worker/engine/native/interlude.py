"""Interruption of a CPU step between two layers, so that a short prompt that arrives meanwhile is prefilled first."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager

NOBODY = -1
"""In place of a file descriptor: never interrupt."""


class Interlude:
    """A handler that a step calls between two layers, at most once and never nested.

    Attributes:
        wake: a file descriptor; the handler is due when it is readable.
        play: the handler; the interrupted step goes on when it returns.
    """

    def __init__(self, wake: int = NOBODY, play: Callable[[], None] = lambda: None) -> None:
        self.wake = wake
        self.play = play

    @contextmanager
    def taken(self) -> Iterator[int]:
        """Yield the descriptor for one step; steps that run within it are not interrupted."""
        wake, self.wake = self.wake, NOBODY
        try:
            yield wake
        finally:
            self.wake = wake
