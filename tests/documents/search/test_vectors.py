"""Vectors: packed and read again, in a file that grows, and ranked."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from documents.search.vectors import GROWTH, VectorFile, best_rows, normalised, pack_vectors, unpack_vectors


def test_packed_vectors_have_length_one_and_nearly_their_direction() -> None:
    vectors = np.random.default_rng(1).normal(size=(50, 384)).astype(np.float32)
    packed = pack_vectors(vectors.tolist())
    assert len(packed) == 50 * 384 * 2
    found = unpack_vectors(packed, 50)
    assert np.allclose(np.linalg.norm(found, axis=1), 1, atol=1e-6)
    assert (np.sum(found * normalised(vectors), axis=1) > 0.99999).all()


def test_no_vectors_are_unpacked() -> None:
    assert unpack_vectors(b"", 0).shape == (0, 0)


def test_a_zero_vector_stays_zero() -> None:
    found = unpack_vectors(pack_vectors([[0, 0], [3, 4]]), 2)
    assert np.allclose(found, [[0.0, 0.0], [0.6, 0.8]], atol=1e-3)


def test_rows_are_kept_in_a_file_that_grows(tmp_path: Path) -> None:
    file = VectorFile(tmp_path / "vectors", 2)
    assert file.rows.shape == (0, 2)
    file.write(np.array([1]), np.array([[1, 2]], np.float32))
    before = file.rows
    file.write(np.array([GROWTH, 0]), np.array([[3, 4], [5, 6]], np.float32))
    file.erase_unused(np.array([0, GROWTH]))
    for each in (file, VectorFile(tmp_path / "vectors", 2)):
        assert each.rows[[0, 1, GROWTH]].tolist() == [[5, 6], [0, 0], [3, 4]]
    assert before[0].tolist() == [5, 6]  # a view of the same file


def test_best_rows_are_ordered_and_leave_out_what_is_excluded() -> None:
    scores = np.array([0.1, 0.9, -np.inf, 0.9, 0.5], np.float32)
    assert best_rows(scores, 3) == [1, 3, 4]
    assert best_rows(scores, 9) == [1, 3, 4, 0]
    assert best_rows(scores[:0], 9) == []
