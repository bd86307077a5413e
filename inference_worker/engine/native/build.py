"""Compiles the engine's C++ CPU kernels for this machine's processor into the user's cache folder.

`python -m inference_worker.engine.native.build` compiles ahead of time; with `--all`, for every instruction set of the
builder's architecture and into the package, for container images: they have no compiler and run on other processors.
The sources need only a C++20 compiler, neither PyTorch's headers nor a build system. The file's name depends on the
sources and the flags, in the cache folder on the compiler too.
"""

from __future__ import annotations

import hashlib
import os
import platform
import shutil
import subprocess
import sys
import tempfile
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

import torch

from inference_worker.errors import NativeUnavailable

SOURCES = Path(__file__).parent / "src"
PREBUILT = Path(__file__).parent / "prebuilt"
"""Folder of the libraries that container images ship; absent elsewhere."""
FLAGS = ("-std=c++20", "-O3", "-shared", "-fPIC", "-pthread")
_TIMEOUT = 300.0
_PREBUILD_TIMEOUT = 1800.0
"""Seconds for an image's build, for which no worker waits and whose machine may be busy."""


@dataclass(frozen=True)
class InstructionSet:
    """A SIMD instruction set that the kernels can be compiled for (`src/simd.h`).

    Attributes:
        name: name of the instruction set.
        machine: the architecture that has it, as named by `platform.machine` on Linux.
        needed: required processor features, as named by `torch.cpu`.
        flags: compiler flags.
        tiles: whether it has AMX's tiles, which a process must ask for (`amx.py`).
    """

    name: str
    machine: str
    needed: tuple[str, ...]
    flags: tuple[str, ...]
    tiles: bool = False

    def missing(self) -> list[str]:
        """Return the processor features that this instruction set needs and this processor lacks; empty if none."""
        return [name for name in self.needed if not torch.cpu.get_capabilities().get(name)]


_X86, _ARM = "x86_64", "aarch64"
_AVX2 = InstructionSet("avx2", _X86, ("avx2", "fma3", "f16c"), ("-mavx2", "-mfma", "-mf16c"))
_AVX512 = InstructionSet(
    "avx512",
    _X86,
    (*_AVX2.needed, "avx512_f", "avx512_bw", "avx512_dq", "avx512_vl", "avx512_vnni"),
    (*_AVX2.flags, "-mavx512f", "-mavx512bw", "-mavx512dq", "-mavx512vl", "-mavx512vnni"),
)
_AVX512_BF16 = InstructionSet("avx512bf16", _X86, (*_AVX512.needed, "avx512_bf16"), (*_AVX512.flags, "-mavx512bf16"))
_AMX = InstructionSet(
    "amx",
    _X86,
    (*_AVX512_BF16.needed, "amx_tile", "amx_int8", "amx_bf16"),
    (*_AVX512_BF16.flags, "-mamx-tile", "-mamx-int8", "-mamx-bf16"),
    tiles=True,
)
_NEON = InstructionSet("neon", _ARM, ("dot",), ("-march=armv8.2-a+dotprod",))
_I8MM = InstructionSet("i8mm", _ARM, ("dot", "i8mm"), ("-march=armv8.2-a+dotprod+i8mm",))
INSTRUCTION_SETS = {kind.name: kind for kind in (_AMX, _AVX512_BF16, _AVX512, _AVX2, _I8MM, _NEON)}
"""Instruction sets by name; of each architecture, the fastest first."""


def own_instruction_sets() -> list[InstructionSet]:
    """Return the instruction sets of this machine's architecture, the fastest first; empty if it has no kernels."""
    return [kind for kind in INSTRUCTION_SETS.values() if kind.machine == platform.machine()]


def best_instructions(*, tiles: bool = True) -> str:
    """Return the name of the fastest instruction set (for which kernels can be compiled) that this processor has.

    `tiles`: whether it may have AMX's tiles. `library.usable_instructions` also tries it.

    Raises:
        NativeUnavailable: the processor has none of them.
    """
    kinds = own_instruction_sets()
    for kind in kinds:
        if not kind.missing() and (tiles or not kind.tiles):
            return kind.name
    if not kinds:
        raise NativeUnavailable(f"there are no kernels for {platform.machine()}")
    raise NativeUnavailable(f"this processor lacks {', '.join(kinds[-1].missing())}")


def check_processor(instructions: str) -> None:
    """Check that this machine's processor has an instruction set.

    Raises:
        NativeUnavailable: it lacks features, or is of another architecture.
    """
    kind = INSTRUCTION_SETS[instructions]
    if kind.machine != platform.machine():
        raise NativeUnavailable(f"these kernels are for {kind.machine}, and this machine is {platform.machine()}")
    if missing := kind.missing():
        raise NativeUnavailable(f"this processor lacks {', '.join(missing)}")


def built_library(instructions: str) -> Path:
    """Return the path of the CPU kernels' shared library for an instruction set; compile it first if it is missing.

    Raises:
        NativeUnavailable: there is no compiler, or it failed.
    """
    shipped = _prebuilt(instructions)
    if shipped.is_file():
        return shipped
    flags = _flags(instructions)
    compiler = find_compiler()
    version = subprocess.run([compiler, "--version"], capture_output=True, check=False, timeout=_TIMEOUT).stdout
    target = cache_folder() / f"kernels-{instructions}-{_fingerprint(version, flags)}.so"
    if not target.is_file():
        _compile(compiler, flags, target)
    return target


def prebuild() -> list[Path]:
    """Compile the CPU kernels into the package (`PREBUILT`) for every instruction set of this machine's architecture.

    Container images are built so. Returns the paths of the libraries.

    Raises:
        NativeUnavailable: there is no compiler, or it failed, or there are no kernels for the architecture.
    """
    compiler = find_compiler()
    names = [kind.name for kind in own_instruction_sets()]
    if not names:
        raise NativeUnavailable(f"there are no kernels for {platform.machine()}")
    targets = [_prebuilt(name) for name in names]
    with ThreadPoolExecutor(len(targets)) as threads:
        builds = [
            threads.submit(_compile, compiler, _flags(name), target, _PREBUILD_TIMEOUT)
            for name, target in zip(names, targets, strict=True)
        ]
    for build in builds:
        build.result()
    return targets


def _prebuilt(instructions: str) -> Path:
    return PREBUILT / f"kernels-{instructions}-{_fingerprint(b'', _flags(instructions))}.so"


def _flags(instructions: str) -> tuple[str, ...]:
    return (*FLAGS, *INSTRUCTION_SETS[instructions].flags)


def find_compiler() -> str:
    """Return the path of the C++ compiler: `CXX` if it is set, else g++ or clang++.

    Raises:
        NativeUnavailable: no compiler is installed.
    """
    names = [os.environ["CXX"]] if os.environ.get("CXX") else ["g++", "clang++"]
    for name in names:
        if found := shutil.which(name):
            return found
    raise NativeUnavailable(f"no C++ compiler: {' or '.join(names)} is not installed")


def cache_folder() -> Path:
    """Return the folder of compiled kernels, in the user's cache folder; it may not exist yet."""
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "headrace"


def _fingerprint(compiler_version: bytes, flags: tuple[str, ...]) -> str:
    digest = hashlib.sha256(compiler_version + " ".join(flags).encode())
    for source in sorted(SOURCES.iterdir()):
        digest.update(source.name.encode() + b"\0" + source.read_bytes())
    return digest.hexdigest()[:16]


def _compile(compiler: str, flags: tuple[str, ...], target: Path, timeout: float = _TIMEOUT) -> None:
    """Compile into a temporary file and rename it to `target`, as several processes may compile at the same time."""
    try:
        target.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(dir=target.parent) as folder:
            built = Path(folder) / target.name
            command = [compiler, *flags, "-o", str(built), *map(str, sorted(SOURCES.glob("*.cpp")))]
            run = subprocess.run(command, capture_output=True, check=False, timeout=timeout)
            if run.returncode:
                first = (run.stderr.decode(errors="replace").strip().splitlines() or ["no message"])[0]
                raise NativeUnavailable(f"{compiler} failed: {first}")
            built.replace(target)
    except (OSError, subprocess.TimeoutExpired) as error:
        raise NativeUnavailable(f"can't compile the kernels: {error}") from error


def main(arguments: list[str]) -> None:
    """Run `python -m inference_worker.engine.native.build [--all]`: compile the CPU kernels, print library paths.

    Without a compiler or a usable processor it prints the reason; with `--all` that is an error.
    """
    if arguments == ["--all"]:
        sys.stdout.writelines(f"{path}\n" for path in prebuild())
        return
    try:
        sys.stdout.write(f"{built_library(best_instructions())}\n")
    except NativeUnavailable as reason:
        sys.stdout.write(f"PyTorch will compute everything: {reason}\n")


if __name__ == "__main__":
    main(sys.argv[1:])
