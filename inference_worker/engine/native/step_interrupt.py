"""Lets a CPU engine interrupt a step between two layers, to compute sequences that should not wait for its end."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager

NEVER = -1
"""In place of a file descriptor: the step is not interrupted."""
AT_NEXT_LAYER = -2
"""In place of a file descriptor: the step is interrupted after its next layer."""


def _not_again() -> int:
    return NEVER


class StepInterrupt:
    """A handler that a step calls between two layers; steps within the handler are not interrupted.

    Attributes:
        wakeup_fd: a file descriptor; the handler is due when it is readable. `NEVER` and `AT_NEXT_LAYER` are accepted.
        handler: the handler. It returns the file descriptor for the rest of the step, which goes on then.
    """

    def __init__(self, wakeup_fd: int = NEVER, handler: Callable[[], int] = _not_again) -> None:
        self.wakeup_fd = wakeup_fd
        self.handler = handler

    @contextmanager
    def claim(self) -> Iterator[int]:
        """Reserve the interruptions for one step: a context manager that yields the wake-up file descriptor.

        A step nested within that one gets `NEVER`, and so is not interrupted itself.
        """
        wakeup_fd, self.wakeup_fd = self.wakeup_fd, NEVER
        try:
            yield wakeup_fd
        finally:
            self.wakeup_fd = wakeup_fd
