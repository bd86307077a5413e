"""The kernels for ARM on an x86-64 machine: a program under QEMU computes the calls of the library.

`native/served_kernels.cpp` is the program; it reads and writes this process's memory through a pipe.
"""

from __future__ import annotations

import ctypes
import platform
import select
import shutil
import struct
import subprocess
from collections.abc import Callable
from functools import cache, partial
from pathlib import Path
from typing import IO, cast

import pytest

from inference_worker.engine.native.build import INSTRUCTION_SETS, SOURCES, built_library
from inference_worker.engine.native.step_interrupt import AT_NEXT_LAYER, NEVER

COMPILER, EMULATOR = "aarch64-linux-gnu-g++", "qemu-aarch64"
PACKAGES = {COMPILER: "g++-aarch64-linux-gnu", EMULATOR: "qemu-user"}
_ROOT = "/usr/aarch64-linux-gnu"
"""Where Debian has the C and C++ libraries of the other architecture."""
_PROGRAM = Path(__file__).parent / "native" / "served_kernels.cpp"

_TRAITS = ("panel", "multiplies_bytes", "multiplies_bfloat16")
_FUNCTIONS = (*_TRAITS, "create", "linear", "gather", "attention", "decode")
_WORDS = 13
_WAKEUP_FD = 7
"""Index of `decode`'s argument that names a file descriptor of this process."""
_READ, _WRITE = range(2)


def is_foreign(instructions: str) -> bool:
    """Whether an instruction set is that of another architecture than this machine's."""
    return INSTRUCTION_SETS[instructions].machine != platform.machine()


def compile_program(target: Path) -> None:
    """Compile the program for ARM; the test is skipped where that or its emulator is missing."""
    if missing := [package for program, package in PACKAGES.items() if shutil.which(program) is None]:
        pytest.skip(f"ARM can't be emulated: `sudo apt-get install {' '.join(missing)}`")
    flags = ["-std=c++20", "-O1", "-pthread", f"-I{SOURCES}", *INSTRUCTION_SETS["neon"].flags]
    subprocess.run([COMPILER, *flags, "-o", str(target), str(_PROGRAM), "-ldl"], check=True, capture_output=True)


class EmulatedLibrary:
    """Stands in for the loaded library in one `Kernels`, with a process of its own.

    `program`: as `compile_program` made it.
    """

    def __init__(self, program: Path, instructions: str) -> None:
        command = [EMULATOR, "-L", _ROOT, str(program), str(_library(instructions))]
        self._process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE)

    def __getattr__(self, name: str) -> Callable[..., int | None]:
        return partial(self._call, name.removeprefix("headrace_"))

    def headrace_destroy(self, _: object) -> None:
        """End the process, which ends with its input."""
        cast(IO[bytes], self._process.stdin).close()
        cast(IO[bytes], self._process.stdout).close()
        self._process.wait()

    def _call(self, function: str, *arguments: object) -> int | None:
        """Send a call, and serve memory until it returns; None: there was no error."""
        words = [_FUNCTIONS.index(function), *map(_word, arguments)]
        if function == "decode" and words[1 + _WAKEUP_FD] >= 0:
            readable, _, _ = select.select([words[1 + _WAKEUP_FD]], [], [], 0)
            words[1 + _WAKEUP_FD] = AT_NEXT_LAYER if readable else NEVER
        self._send(struct.pack(f"<{_WORDS}q", *words, *[0] * (_WORDS - len(words))))
        while True:
            message, first, size = struct.unpack("<3q", self._receive(24))
            if message == _READ:
                self._send(ctypes.string_at(first, size))
            elif message == _WRITE:
                ctypes.memmove(first, self._receive(size), size)
            else:
                return first if function in _TRAITS else None

    def _send(self, data: bytes) -> None:
        stdin = cast(IO[bytes], self._process.stdin)
        stdin.write(data)
        stdin.flush()

    def _receive(self, size: int) -> bytes:
        data = cast(IO[bytes], self._process.stdout).read(size)
        if len(data) < size:
            raise RuntimeError(f"the emulated kernels ended with status {self._process.wait()}")
        return data


def _word(argument: object) -> int:
    """Return an argument of a ctypes call as an integer."""
    if isinstance(argument, int):
        return argument
    if isinstance(argument, float):
        return cast(int, struct.unpack("<i", struct.pack("<f", argument))[0])
    if isinstance(argument, ctypes.c_void_p):
        return argument.value or 0
    return ctypes.addressof(argument._obj)  # type: ignore[attr-defined]  # of `byref`


@cache
def _library(instructions: str) -> Path:
    """The library as `build.py` compiles it on a machine of that architecture."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("CXX", COMPILER)
        return built_library(instructions)
