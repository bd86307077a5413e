"""Limits of sandboxed work (memory, CPU, output, time), and the errors that are raised when work exceeds them.

SandboxError
├── SandboxUnavailable   this machine can't confine a process; the work was not started
├── LimitExceeded
└── WorkFailed
"""

from __future__ import annotations

import math
from dataclasses import dataclass


@dataclass(frozen=True)
class Limits:
    """Limits of a process that is confined, from the moment of its confinement."""

    memory_bytes: int
    """Address space beyond what the process has when it is confined."""
    cpu_seconds: float
    """CPU time of the process. A signal ends the process after it, at most a second later the kernel."""


@dataclass(frozen=True)
class WorkLimits(Limits):
    """Limits of one piece of work that `process.run` runs."""

    output_bytes: int
    """Bytes of all messages of the work."""
    message_bytes: int
    """Bytes of its largest message, which the caller holds in memory."""
    wait_seconds: float
    """Wall-clock time that the caller waits for messages; time between two requests for a message is not counted."""
    busy_seconds: float = math.inf
    """Wall-clock time after which a `ForkServer` ends work that got a quarter of its CPU time by then."""


class SandboxError(Exception):
    """Base of the errors of sandboxed work."""


class SandboxUnavailable(SandboxError):
    """Raised when this machine can't confine a process: another system than Linux, or seccomp is not offered."""


class LimitExceeded(SandboxError):
    """Raised when work exceeded a limit; the message names the limit."""


class WorkFailed(SandboxError):
    """Raised when the process of the work ended early; the message has its exit status."""
