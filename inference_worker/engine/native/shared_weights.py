"""Packed weights of the CPU kernels in a file that the workers of one machine map into memory and share.

The first worker packs the weights into the file, others wait for it and only map it, and so do later starts. A file
that no worker has mapped is removed when another is written.
"""

from __future__ import annotations

import fcntl
import hashlib
import json
import mmap
import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import IO, Any, TypeVar

import numpy as np
import structlog
import torch
from torch import Tensor

from inference_worker.engine.native.packing import PackedWeight
from inference_worker.engine.native.weight_arena import ALIGNMENT, WeightStore
from inference_worker.errors import ModelError

T = TypeVar("T")
log = structlog.get_logger(__name__)

_SUFFIX = ".weights"
_NAMES = "[0-9a-f]" * 32
"""Pattern of the names of our files, which no others are taken for."""
_FIELDS = ("format", "inputs", "outputs", "panel", "activation_bits")
_FOOTER = 8
"""Bytes at the end of a file, which are the length of the index before them."""


def build_shared(folder: Path, identity: dict[str, Any], build: Callable[[WeightStore], T]) -> T:
    """Return what `build` makes of packed weights in a file of `folder`, which is written first if it is missing.

    Args:
        folder: of the files; must be writable, and only by users whom this one trusts.
        identity: what the packed weights depend on.
        build: stores the weights, and keeps what it needs of them; called twice if they are to be written.

    Raises:
        ModelError: the file can't be written or read.
    """
    name = hashlib.sha256(json.dumps(identity, sort_keys=True).encode()).hexdigest()[:32]
    path = folder / f"{name}{_SUFFIX}"
    try:
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        _check_owner(folder)
        with _locked(folder / "lock"):
            if path.exists():
                try:
                    return _mapped(path, build)
                except (ValueError, LookupError, TypeError, AttributeError, RuntimeError) as error:
                    log.warning("shared weights are damaged and packed anew", file=str(path), error=repr(error))
                    path.unlink()
            _remove_unused(folder)
            _write(path, build)
            return _mapped(path, build)
    except OSError as error:
        raise ModelError(f"can't share weights in {folder}: {error}") from error


def _check_owner(folder: Path) -> None:
    """Check that no other user can put files into the folder, which the kernels compute with as they are.

    Raises:
        ModelError: another user owns the folder or may write to it.
    """
    found = folder.stat()
    if found.st_uid != os.geteuid() or found.st_mode & 0o022:
        raise ModelError(f"can't share weights in {folder}: another user owns it or may write to it (chmod go-w)")


def _mapped(path: Path, build: Callable[[WeightStore], T]) -> T:
    built = build(_MappedFile(path))
    log.info("packed weights are shared", file=str(path), bytes=path.stat().st_size)
    return built


@contextmanager
def _locked(path: Path) -> Iterator[None]:
    with path.open("w") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield


def _remove_unused(folder: Path) -> None:
    """Remove the files that no process has mapped, which holds a shared lock on each, and unfinished ones."""
    for path in folder.glob(f"{_NAMES}.partial"):
        path.unlink()
    for path in folder.glob(f"{_NAMES}{_SUFFIX}"):
        with path.open("rb") as file:
            try:
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                continue
            path.unlink()


def _write(path: Path, build: Callable[[WeightStore], object]) -> None:
    partial = path.with_suffix(".partial")
    try:
        with partial.open("wb") as file:
            writer = _FileWriter(file)
            build(writer)
            writer.close()
        partial.rename(path)
    finally:
        partial.unlink(missing_ok=True)


class _FileWriter:
    """Writes weights to a file; what it returns has no data, so that the model is not in memory."""

    def __init__(self, file: IO[bytes]) -> None:
        self._file = file
        self._index: dict[str, dict[str, Any]] = {}

    def keep(self, name: str, packed: Callable[[], PackedWeight]) -> PackedWeight:
        """Write a packed weight under its name, and return it without data."""
        weight = packed()
        self._index[name] = {
            **{field: getattr(weight, field) for field in _FIELDS},
            "panels": self._append(weight.panels),
            "bias": None if weight.bias is None else self._append(weight.bias),
        }
        return replace(weight, panels=torch.empty(0), bias=None)

    def close(self) -> None:
        """Write the index, and wait until all is on the disk."""
        index = json.dumps(self._index).encode()
        self._file.write(index + len(index).to_bytes(_FOOTER, "little"))
        self._file.flush()
        os.fsync(self._file.fileno())

    def _append(self, tensor: Tensor) -> tuple[int, list[int], str]:
        """Write a tensor at an aligned position; return its offset, shape and number format."""
        self._file.write(bytes(-self._file.tell() % ALIGNMENT))
        offset = self._file.tell()
        self._file.write(tensor.contiguous().view(torch.uint8).numpy().data)
        return offset, list(tensor.shape), str(tensor.dtype).removeprefix("torch.")


class _MappedFile:
    """Weights in a file that is mapped privately: its pages are shared by all processes that only read them."""

    def __init__(self, path: Path) -> None:
        with path.open("rb") as file:
            fcntl.flock(file, fcntl.LOCK_SH)  # held until the mapping is gone, which has a duplicate of the descriptor
            mapped = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_COPY)
        mapped.madvise(mmap.MADV_WILLNEED)
        length = int.from_bytes(mapped[-_FOOTER:], "little")
        self._index: dict[str, dict[str, Any]] = json.loads(mapped[-_FOOTER - length : -_FOOTER])
        self._bytes = torch.from_numpy(np.frombuffer(mapped, np.uint8))

    def keep(self, name: str, _: Callable[[], PackedWeight]) -> PackedWeight:
        """Return the packed weight `name` of the file."""
        found = self._index[name]
        bias = found["bias"]
        return PackedWeight(
            **{field: found[field] for field in _FIELDS},
            panels=self._tensor(*found["panels"]),
            bias=None if bias is None else self._tensor(*bias),
        )

    def _tensor(self, offset: int, shape: list[int], dtype: str) -> Tensor:
        kind: torch.dtype = getattr(torch, dtype)
        size = int(np.prod(shape)) * kind.itemsize
        return self._bytes[offset : offset + size].view(kind).view(shape)
