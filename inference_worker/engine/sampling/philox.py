"""Generates the random numbers of sampling by a counter: equal (seed, choice, position) give equal numbers anywhere.

Philox4x32-10 of Salmon, Moraes, Dror and Shaw, "Parallel Random Numbers: As Easy as 1, 2, 3", SC 2011, on the host:
computing one number per row takes less time than a transfer of the counters to a device.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

Words = NDArray[np.uint64]

_MASK = np.uint64(0xFFFFFFFF)
_HALF = np.uint64(32)
_MULTIPLIERS = np.array([[0xD2511F53], [0xCD9E8D57]], np.uint64)
_WEYL = np.array([[0x9E3779B9], [0xBB67AE85]], np.uint64)
_ROUNDS = 10
_WEYL_OF_ROUND = np.arange(_ROUNDS, dtype=np.uint64)[:, None, None] * _WEYL


def philox4x32(counter: Words, key: Words) -> Words:
    """Return the four 32-bit random words that Philox4x32-10 gives for each column's counter and key.

    Args:
        counter: [4, R], each below 2**32.
        key: [2, R], each below 2**32.

    Returns:
        [4, R], each below 2**32.
    """
    even, odd = counter[0::2], counter[1::2]
    for round_key in (key + _WEYL_OF_ROUND) & _MASK:
        product = even * _MULTIPLIERS
        even = (product >> _HALF)[::-1] ^ odd ^ round_key
        odd = (product & _MASK)[::-1]
    return np.stack((even[0], odd[0], even[1], odd[1]))


def uniform(seed: Words, choice: Words, position: Words) -> NDArray[np.float64]:
    """Return the random number of each of R rows, [R] float64 in [0, 1), determined by (`seed`, `choice`, `position`).

    Each argument is [R]; a number has 53 random bits.
    """
    counter = np.stack((position & _MASK, position >> _HALF, choice & _MASK, np.zeros_like(choice)))
    words = philox4x32(counter, np.stack((seed & _MASK, seed >> _HALF)))
    bits = ((words[0] >> np.uint64(5)) << np.uint64(26)) + (words[1] >> np.uint64(6))
    numbers: NDArray[np.float64] = np.ldexp(bits.astype(np.float64), -53)
    return numbers
