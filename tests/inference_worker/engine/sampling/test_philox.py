"""Tests of Philox: known answers and uniformity."""

from __future__ import annotations

import numpy as np
import pytest

from inference_worker.engine.sampling.philox import Words, philox4x32, uniform

# kat_vectors of the Random123 distribution (Salmon et al. 2011), philox4x32, 10 rounds: counter, key, result.
KNOWN = [
    ("00000000 00000000 00000000 00000000", "00000000 00000000", "6627e8d5 e169c58d bc57ac4c 9b00dbd8"),
    ("ffffffff ffffffff ffffffff ffffffff", "ffffffff ffffffff", "408f276d 41c83b0e a20bc7c6 6d5451fd"),
    ("243f6a88 85a308d3 13198a2e 03707344", "a4093822 299f31d0", "d16cfe09 94fdcceb 5001e420 24126ea1"),
]


def words(text: str) -> Words:
    return np.array([[int(word, 16)] for word in text.split()], np.uint64)


@pytest.mark.parametrize(("counter", "key", "result"), KNOWN)
def test_known_answers(counter: str, key: str, result: str) -> None:
    assert np.array_equal(philox4x32(words(counter), words(key)), words(result))


def test_rows_are_independent() -> None:
    counter, key = (np.concatenate([words(entry[i]) for entry in KNOWN], axis=1) for i in (0, 1))
    assert np.array_equal(philox4x32(counter, key), np.concatenate([words(entry[2]) for entry in KNOWN], axis=1))


def test_numbers_are_uniform_along_each_argument() -> None:
    steps = np.arange(20_000, dtype=np.uint64)
    still = np.full_like(steps, 3)
    for arguments in (
        (steps, still, still),
        (still, steps, still),
        (still, still, steps),
        (steps << np.uint64(32), still, still),
    ):
        numbers = uniform(*arguments)
        assert (numbers.min() >= 0, numbers.max() < 1) == (True, True)
        counts, _ = np.histogram(numbers, bins=100, range=(0, 1))
        assert ((counts - 200) ** 2 / 200).sum() < 150  # chi-square, 99 degrees of freedom: p is about 0.0007
        assert abs(np.corrcoef(numbers[:-1], numbers[1:])[0, 1]) < 0.03


def test_all_bits_of_a_seed_count() -> None:
    zero = np.zeros(3, np.uint64)
    numbers = uniform(np.array([2**64 - 1, 1, 2**63], np.uint64), zero, zero)
    assert len(set(numbers.tolist())) == 3
