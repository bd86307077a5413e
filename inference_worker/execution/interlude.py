"""What may be done between two layers of a step: something short that came while it was computed.

Knows neither what it is nor who computes the layers.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager

NOBODY = -1
"""A file descriptor that never wakes."""


class Interlude:
    """At most one a step, and none within it.

    Attributes:
        wake: a file descriptor; when something can be read from it, it is time.
        play: does it; the step that gives way for it goes on when it returns.
    """

    def __init__(self, wake: int = NOBODY, play: Callable[[], None] = lambda: None) -> None:
        self.wake = wake
        self.play = play

    @contextmanager
    def taken(self) -> Iterator[int]:
        """Inside, a step that was given `wake` is computed; those within it are given nobody's."""
        wake, self.wake = self.wake, NOBODY
        try:
            yield wake
        finally:
            self.wake = wake
