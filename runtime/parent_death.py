"""Has Linux kill the calling process when its parent ends, so that a killed launcher leaves no processes behind."""

from __future__ import annotations

import ctypes
import os
import signal

_LIBC = ctypes.CDLL(None, use_errno=True)
"""Loaded at import: between fork and exec nothing can be loaded."""
_PR_SET_PDEATHSIG = 1
"""Option of `prctl`: the signal that a process gets when the thread of its parent that started it ends."""


def end_with_parent(parent: int | None = None) -> None:
    """Have the kernel kill this process when its parent ends, even by SIGKILL.

    If `parent`, the parent's process id, is not the parent's any more, it has ended already: kill this process at once.

    Raises:
        OSError: the kernel refused.
    """
    if _LIBC.prctl(_PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0) != 0:
        number = ctypes.get_errno()
        raise OSError(number, os.strerror(number))
    if parent is not None and os.getppid() != parent:  # the kernel sends no signal for an earlier end
        os.kill(os.getpid(), signal.SIGKILL)
