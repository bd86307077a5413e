"""Vectors of passages: packed for a store, and in a memory-mapped file of rows that a search scans completely."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

Matrix = npt.NDArray[np.float32]
"""Vectors, one a row."""
STORED_TYPE = np.dtype("<f2")
"""Type of the numbers of a vector in a store: half of float32, and near enough for a ranking."""
GROWTH = 4096
"""Rows by which a file of vectors grows, at least."""


def pack_vectors(vectors: Sequence[Sequence[float]]) -> bytes:
    """Return vectors in the form in which a store keeps them: float16, of length 1."""
    return normalised(np.asarray(vectors, np.float32)).astype(STORED_TYPE).tobytes()


def unpack_vectors(packed: bytes, count: int) -> Matrix:
    """Return `count` vectors of length 1 from the form in which a store keeps them."""
    numbers = np.frombuffer(packed, STORED_TYPE).astype(np.float32)
    return normalised(numbers.reshape(count, len(numbers) // max(count, 1)))


def normalised(vectors: npt.NDArray[Any]) -> Matrix:
    """Return vectors (rows, or one vector) with length 1, so that their products are cosines; a zero vector stays."""
    lengths = np.linalg.norm(vectors, axis=-1, keepdims=True)
    return np.asarray(vectors / np.where(lengths == 0, 1, lengths), np.float32)


def best_rows(scores: npt.NDArray[np.float32], limit: int) -> list[int]:
    """Return up to `limit` rows with the highest finite scores, in descending order."""
    limit = min(limit, len(scores))
    if not limit:
        return []
    highest = np.argpartition(scores, -limit)[-limit:]
    ordered = highest[np.lexsort((highest, -scores[highest]))]
    return [int(row) for row in ordered if np.isfinite(scores[row])]


class VectorFile:
    """A file of float32 vectors, one a row, that is mapped into memory. The caller knows which rows are in use."""

    def __init__(self, path: Path, dimension: int) -> None:
        self._path = path
        self._dimension = dimension
        self._map: Any = np.empty((0, dimension), np.float32)
        if path.exists():
            self._remap()

    @property
    def rows(self) -> Matrix:
        """All rows of the file, used or not; a view of the file's content."""
        return np.asarray(self._map)

    def write(self, rows: npt.NDArray[np.int64], vectors: Matrix) -> None:
        """Write vectors to rows; they are on the disk after `flush`."""
        if len(rows) and rows.max() >= len(self._map):
            self._grow(int(rows.max()) + 1)
        if len(rows):
            self._map[rows] = vectors

    def flush(self) -> None:
        """Wait until all written rows are on the disk."""
        if len(self._map):
            self._map.flush()

    def erase_unused(self, used: npt.NDArray[np.int64]) -> None:
        """Overwrite all rows but the `used` ones with zeros, and wait until they are on the disk."""
        is_used = np.zeros(len(self._map), np.bool_)
        is_used[used] = True
        for start in range(0, len(is_used), GROWTH):
            rows = self._map[start : start + GROWTH]
            unused = rows[~is_used[start : start + GROWTH]]
            if unused.any():  # what has never been written stays without blocks on the disk
                rows[~is_used[start : start + GROWTH]] = 0
        self.flush()

    def _grow(self, needed: int) -> None:
        count = max(needed, len(self._map) + max(GROWTH, len(self._map) // 4))
        with self._path.open("ab") as file:
            os.truncate(file.fileno(), count * self._dimension * np.dtype(np.float32).itemsize)
        self._remap()

    def _remap(self) -> None:
        count = self._path.stat().st_size // (self._dimension * np.dtype(np.float32).itemsize)
        if count:
            self._map = np.memmap(self._path, np.float32, "r+", shape=(count, self._dimension))
