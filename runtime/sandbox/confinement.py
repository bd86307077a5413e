"""Confines the calling process until its end: resource limits, no privileges, a seccomp filter, no other open files.

It needs no privilege: it works as any user, in a container without capabilities and with `no-new-privileges`. It fails
closed: a process that can't be confined raises `SandboxUnavailable`.
"""

from __future__ import annotations

import ctypes
import math
import os
import resource
import signal
import socket
from collections.abc import Callable, Collection
from pathlib import Path

from runtime.parent_death import end_with_parent
from runtime.sandbox.limits import Limits, SandboxUnavailable
from runtime.sandbox.system_calls import ARCHITECTURES, filter_program

NICENESS = 5
"""Increment of the process' nice value, so that it yields to request handling."""
_PR_SET_NO_NEW_PRIVS = 38
_SET_MODE_FILTER, _ALL_THREADS = 1, 1
_STANDARD_FILES = 3


class _Program(ctypes.Structure):
    """The kernel's `struct sock_fprog`."""

    _fields_ = (("length", ctypes.c_ushort), ("instructions", ctypes.c_char_p))


def confine(limits: Limits, keep: Collection[int]) -> None:
    """Confine this process and its threads until its end to `limits`; close all files but the descriptors in `keep`.

    From then on it can compute, read the files in `keep` and write to the pipes among them; opening files or sockets,
    starting processes or threads, and changing limits fail with `PermissionError`. Import what the work needs before.
    Standard files that are not in `keep` lead to `/dev/null`.

    Raises:
        SandboxUnavailable: the process could not be confined, and must not begin the work.
    """
    try:
        end_with_parent()
        _close_files(keep)
        _limit(limits)
        _filter_system_calls()
    except (OSError, ValueError, AttributeError) as error:
        raise SandboxUnavailable(str(error)) from error
    _check_sockets()


def _close_files(keep: Collection[int]) -> None:
    null = os.open(os.devnull, os.O_RDWR)
    for standard in range(_STANDARD_FILES):
        if standard not in keep:
            os.dup2(null, standard)
    highest = resource.getrlimit(resource.RLIMIT_NOFILE)[0]
    first = _STANDARD_FILES
    for kept in sorted(each for each in keep if each >= _STANDARD_FILES):
        os.closerange(first, kept)
        first = kept + 1
    os.closerange(first, max(highest, first))


def _limit(limits: Limits) -> None:
    os.nice(NICENESS)
    pages = int(Path("/proc/self/statm").read_text(encoding="ascii").split()[0])
    seconds = math.ceil(limits.cpu_seconds)
    for kind, most in (
        (resource.RLIMIT_AS, pages * resource.getpagesize() + limits.memory_bytes),
        (resource.RLIMIT_CPU, math.ceil(_used_cpu_seconds()) + seconds + 1),
        (resource.RLIMIT_FSIZE, 0),
        (resource.RLIMIT_CORE, 0),
        (resource.RLIMIT_NPROC, 0),
        (resource.RLIMIT_NOFILE, _STANDARD_FILES + 1),
    ):
        resource.setrlimit(kind, (most, most))
    signal.signal(signal.SIGPROF, signal.SIG_DFL)
    signal.setitimer(signal.ITIMER_PROF, limits.cpu_seconds)  # its signal ends the process


def _used_cpu_seconds() -> float:
    used = resource.getrusage(resource.RUSAGE_SELF)
    return used.ru_utime + used.ru_stime


def _filter_system_calls() -> None:
    architecture = ARCHITECTURES.get(os.uname().machine)
    if architecture is None or os.uname().sysname != "Linux":
        raise SandboxUnavailable(f"no filter of system calls for {os.uname().sysname} on {os.uname().machine}")
    program = filter_program(architecture)
    filtered = _Program(len(program) // 8, program)
    libc = _libc()
    _call(libc.prctl, _PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0)
    _call(libc.syscall, architecture.seccomp, _SET_MODE_FILTER, _ALL_THREADS, ctypes.byref(filtered))


def _check_sockets() -> None:
    """Raise if sockets can still be opened, as under an emulator that accepts filters and ignores them."""
    try:
        socket.socket(socket.AF_UNIX).close()
    except PermissionError:
        return
    except OSError as error:
        raise SandboxUnavailable(f"a socket failed otherwise than expected: {error}") from error
    raise SandboxUnavailable("the filter of system calls has no effect")


def _libc() -> ctypes.CDLL:
    return ctypes.CDLL(None, use_errno=True)


def _call(function: Callable[..., int], *arguments: object) -> None:
    converted = [ctypes.c_ulong(each) if isinstance(each, int) else each for each in arguments]
    if function(*converted) != 0:
        number = ctypes.get_errno()
        raise OSError(number, os.strerror(number))
