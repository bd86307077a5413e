"""Builds the seccomp filter of confined processes (a classic BPF program), which permits a few system calls only.

The filter is a list of what is allowed: memory, time, and reading and writing of open files. Every other call fails
with EPERM, among them those that open files and sockets, start processes, and signal or trace other processes.
`newfstatat`, by which the C library asks about open files, fails too, because it can look for paths; Python's files
work without it.
"""

from __future__ import annotations

import errno
import struct
from collections.abc import Iterator, Sequence
from typing import NamedTuple

ALLOWED: dict[str, tuple[int | None, int | None]] = {
    "brk": (12, 214),
    "clock_getres": (229, 114),
    "clock_gettime": (228, 113),
    "clock_nanosleep": (230, 115),
    "close": (3, 57),
    "exit": (60, 93),
    "exit_group": (231, 94),
    "fstat": (5, 80),
    "futex": (202, 98),
    "getcpu": (309, 168),
    "getpid": (39, 172),
    "getrandom": (318, 278),
    "getrusage": (98, 165),
    "gettid": (186, 178),
    "gettimeofday": (96, 169),
    "lseek": (8, 62),
    "madvise": (28, 233),
    "membarrier": (324, 283),
    "mmap": (9, 222),
    "mprotect": (10, 226),
    "mremap": (25, 216),
    "munmap": (11, 215),
    "nanosleep": (35, 101),
    "poll": (7, None),
    "ppoll": (271, 73),
    "pread64": (17, 67),
    "read": (0, 63),
    "readv": (19, 65),
    "restart_syscall": (219, 128),
    "rseq": (334, 293),
    "rt_sigaction": (13, 134),
    "rt_sigprocmask": (14, 135),
    "rt_sigreturn": (15, 139),
    "sched_getaffinity": (204, 123),
    "sched_yield": (24, 124),
    "set_robust_list": (273, 99),
    "sigaltstack": (131, 132),
    "time": (201, None),
    "times": (100, 153),
    "uname": (63, 160),
    "write": (1, 64),
    "writev": (20, 66),
}
"""Numbers of the allowed calls on x86-64 and on AArch64; `None`: the architecture does not have the call."""

_LOAD, _EQUALS, _RETURN = 0x20, 0x15, 0x06
_ALLOW, _KILL, _FAIL = 0x7FFF0000, 0x80000000, 0x00050000 | errno.EPERM
_NUMBER, _ARCHITECTURE = 0, 4
"""Offsets in the kernel's `struct seccomp_data`."""


class Architecture(NamedTuple):
    """A processor architecture: its number in the kernel's audit interface, and numbers of calls named here."""

    audit: int
    column: int
    """Index into the values of `ALLOWED`."""
    seccomp: int


ARCHITECTURES = {
    "x86_64": Architecture(0xC000003E, 0, seccomp=317),
    "aarch64": Architecture(0xC00000B7, 1, seccomp=277),
}
"""Supported architectures, by the name that `os.uname().machine` has."""


def filter_program(architecture: Architecture) -> bytes:
    """Return the seccomp filter of confined processes for an architecture, as bytes of `struct sock_filter`s."""
    return b"".join(struct.pack("<HBBI", *instruction) for instruction in _instructions(architecture))


def _instructions(architecture: Architecture) -> Iterator[Sequence[int]]:
    """Yield code, offsets of the jump if true and if false, and operand of each instruction."""
    yield _LOAD, 0, 0, _ARCHITECTURE
    yield _EQUALS, 1, 0, architecture.audit
    yield _RETURN, 0, 0, _KILL  # 32-bit calls have other numbers
    yield _LOAD, 0, 0, _NUMBER
    for numbers in ALLOWED.values():
        if (number := numbers[architecture.column]) is not None:
            yield _EQUALS, 0, 1, number
            yield _RETURN, 0, 0, _ALLOW
    yield _RETURN, 0, 0, _FAIL
