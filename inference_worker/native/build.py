"""Compiles the kernels for this machine and keeps the result in the user's cache.

`python -m inference_worker.native.build` does it ahead of time. The sources need nothing but a C++20 compiler, neither
PyTorch's headers nor a build system. A change of a source, a flag or the compiler makes another file. Does not load
what it builds.
"""

from __future__ import annotations

import hashlib
import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

import torch

from inference_worker.errors import NativeUnavailable

SOURCES = Path(__file__).parent / "src"
FLAGS = ("-std=c++20", "-O3", "-mavx2", "-mfma", "-mf16c", "-shared", "-fPIC", "-pthread")
NEEDED = ("avx2", "fma3", "f16c")
"""Instructions that the kernels are written in, as `torch.cpu` names them."""
_TIMEOUT = 300.0


def built_library() -> Path:
    """The compiled kernels, compiled now if they are not yet.

    Raises:
        NativeUnavailable: this processor can't run them, there is no compiler, or it failed.
    """
    missing = [name for name in NEEDED if not torch.cpu.get_capabilities().get(name)]
    if missing:
        raise NativeUnavailable(f"this processor lacks {', '.join(missing)}")
    compiler = _compiler()
    target = _cache() / f"kernels-{_fingerprint(compiler)}.so"
    if not target.is_file():
        _compile(compiler, target)
    return target


def _compiler() -> str:
    names = [os.environ["CXX"]] if os.environ.get("CXX") else ["g++", "clang++"]
    for name in names:
        if found := shutil.which(name):
            return found
    raise NativeUnavailable(f"no C++ compiler: {' or '.join(names)} is not installed")


def _cache() -> Path:
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "headrace"


def _fingerprint(compiler: str) -> str:
    version = subprocess.run([compiler, "--version"], capture_output=True, check=False, timeout=_TIMEOUT).stdout
    digest = hashlib.sha256(version + " ".join(FLAGS).encode())
    for source in sorted(SOURCES.iterdir()):
        digest.update(source.name.encode() + b"\0" + source.read_bytes())
    return digest.hexdigest()[:16]


def _compile(compiler: str, target: Path) -> None:
    """Into a file beside the target first: several processes may compile at once."""
    try:
        target.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(dir=target.parent) as folder:
            built = Path(folder) / target.name
            command = [compiler, *FLAGS, "-o", str(built), *map(str, sorted(SOURCES.glob("*.cpp")))]
            run = subprocess.run(command, capture_output=True, check=False, timeout=_TIMEOUT)
            if run.returncode:
                first = (run.stderr.decode(errors="replace").strip().splitlines() or ["no message"])[0]
                raise NativeUnavailable(f"{compiler} failed: {first}")
            built.replace(target)
    except (OSError, subprocess.TimeoutExpired) as error:
        raise NativeUnavailable(f"can't compile the kernels: {error}") from error


if __name__ == "__main__":
    try:
        sys.stdout.write(f"{built_library()}\n")
    except NativeUnavailable as reason:
        sys.stdout.write(f"PyTorch will compute everything: {reason}\n")
