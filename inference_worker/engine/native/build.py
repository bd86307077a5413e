"""Compiles the kernels for this machine into the user's cache folder.

`python -m inference_worker.engine.native.build` compiles ahead of time. The sources need only a C++20 compiler, neither
PyTorch's headers nor a build system. The file's name depends on the sources, the flags and the compiler.
"""

from __future__ import annotations

import hashlib
import os
import shutil
import subprocess
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path

import torch

from inference_worker.errors import NativeUnavailable

SOURCES = Path(__file__).parent / "src"
FLAGS = ("-std=c++20", "-O3", "-shared", "-fPIC", "-pthread")
_TIMEOUT = 300.0


@dataclass(frozen=True)
class InstructionSet:
    """A SIMD instruction set that the kernels can be compiled for (`src/simd.h`).

    Attributes:
        name: name of the header that wraps it.
        needed: required processor features, as named by `torch.cpu`.
        flags: compiler flags.
    """

    name: str
    needed: tuple[str, ...]
    flags: tuple[str, ...]

    def missing(self) -> list[str]:
        """Return the required features that this processor lacks."""
        return [name for name in self.needed if not torch.cpu.get_capabilities().get(name)]


_AVX2 = InstructionSet("avx2", ("avx2", "fma3", "f16c"), ("-mavx2", "-mfma", "-mf16c"))
_AVX512 = InstructionSet(
    "avx512",
    (*_AVX2.needed, "avx512_f", "avx512_bw", "avx512_dq", "avx512_vl", "avx512_vnni"),
    (*_AVX2.flags, "-mavx512f", "-mavx512bw", "-mavx512dq", "-mavx512vl", "-mavx512vnni"),
)
INSTRUCTION_SETS = {kind.name: kind for kind in (_AVX512, _AVX2)}
"""Instruction sets by name, the fastest first."""


def best_instructions() -> str:
    """Return the name of the fastest instruction set that this processor has.

    Raises:
        NativeUnavailable: the processor has none of them.
    """
    for kind in INSTRUCTION_SETS.values():
        if not kind.missing():
            return kind.name
    raise NativeUnavailable(f"this processor lacks {', '.join(_AVX2.missing())}")


def built_library(instructions: str) -> Path:
    """Return the path of the kernels' shared library for an instruction set; compile it if it is missing.

    Raises:
        NativeUnavailable: there is no compiler, or it failed.
    """
    flags = (*FLAGS, *INSTRUCTION_SETS[instructions].flags)
    compiler = find_compiler()
    target = _cache() / f"kernels-{instructions}-{_fingerprint(compiler, flags)}.so"
    if not target.is_file():
        _compile(compiler, flags, target)
    return target


def find_compiler() -> str:
    """Return the path of the C++ compiler: `CXX` if it is set, else g++ or clang++.

    Raises:
        NativeUnavailable: it is not installed.
    """
    names = [os.environ["CXX"]] if os.environ.get("CXX") else ["g++", "clang++"]
    for name in names:
        if found := shutil.which(name):
            return found
    raise NativeUnavailable(f"no C++ compiler: {' or '.join(names)} is not installed")


def _cache() -> Path:
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "headrace"


def _fingerprint(compiler: str, flags: tuple[str, ...]) -> str:
    version = subprocess.run([compiler, "--version"], capture_output=True, check=False, timeout=_TIMEOUT).stdout
    digest = hashlib.sha256(version + " ".join(flags).encode())
    for source in sorted(SOURCES.iterdir()):
        digest.update(source.name.encode() + b"\0" + source.read_bytes())
    return digest.hexdigest()[:16]


def _compile(compiler: str, flags: tuple[str, ...], target: Path) -> None:
    """Compile into a temporary file and rename it to `target`, as several processes may compile at the same time."""
    try:
        target.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(dir=target.parent) as folder:
            built = Path(folder) / target.name
            command = [compiler, *flags, "-o", str(built), *map(str, sorted(SOURCES.glob("*.cpp")))]
            run = subprocess.run(command, capture_output=True, check=False, timeout=_TIMEOUT)
            if run.returncode:
                first = (run.stderr.decode(errors="replace").strip().splitlines() or ["no message"])[0]
                raise NativeUnavailable(f"{compiler} failed: {first}")
            built.replace(target)
    except (OSError, subprocess.TimeoutExpired) as error:
        raise NativeUnavailable(f"can't compile the kernels: {error}") from error


if __name__ == "__main__":
    try:
        sys.stdout.write(f"{built_library(best_instructions())}\n")
    except NativeUnavailable as reason:
        sys.stdout.write(f"PyTorch will compute everything: {reason}\n")
