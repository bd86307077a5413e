"""Lets a CPU engine interrupt a step between two layers, to prefill a short prompt that arrives meanwhile."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager

NO_DESCRIPTOR = -1
"""In place of a file descriptor: never interrupt."""


class PrefillInterrupt:
    """A handler that a step calls between two layers, at most once and never nested.

    Attributes:
        wakeup_fd: a file descriptor; the handler is due when it is readable.
        handler: the handler; the interrupted step goes on when it returns.
    """

    def __init__(self, wakeup_fd: int = NO_DESCRIPTOR, handler: Callable[[], None] = lambda: None) -> None:
        self.wakeup_fd = wakeup_fd
        self.handler = handler

    @contextmanager
    def claim(self) -> Iterator[int]:
        """Reserve the interruption for one step: a context manager that yields the wake-up file descriptor.

        A step nested within that one gets no descriptor (-1), and so is not interrupted itself.
        """
        wakeup_fd, self.wakeup_fd = self.wakeup_fd, NO_DESCRIPTOR
        try:
            yield wakeup_fd
        finally:
            self.wakeup_fd = wakeup_fd
