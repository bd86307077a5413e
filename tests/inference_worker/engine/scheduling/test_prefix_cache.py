"""Tests of the chained hashes of full blocks."""

from __future__ import annotations

from array import array

from inference_worker.engine.scheduling.prefix_cache import NoPrefixCache, PrefixCache, extend_hashes
from inference_worker.engine.sequence import Sequence
from router.messages import SamplingParams


def hashes(ids: list[int], salt: str = "", block_size: int = 2) -> list[bytes]:
    sequence = Sequence("r", 0, array("q", ids), len(ids), SamplingParams(seed=0), 1, salt=salt)
    extend_hashes(sequence, len(ids) // block_size, block_size)
    return sequence.block_hashes


def test_a_hash_covers_everything_before() -> None:
    one, other = hashes([1, 2, 3, 4, 5]), hashes([9, 2, 3, 4])
    assert len(one) == len(other) == 2
    assert not set(one) & set(other)
    assert hashes([1, 2, 3, 9])[0] == one[0]


def test_salts_separate() -> None:
    assert not set(hashes([1, 2, 3, 4], "a")) & set(hashes([1, 2, 3, 4], "b"))


def test_hashing_in_steps_is_hashing_at_once() -> None:
    ids = list(range(20))
    sequence = Sequence("r", 0, array("q", ids), 20, SamplingParams(seed=0), 1)
    for count in (1, 4, 4, 9):
        extend_hashes(sequence, count, 2)
    assert sequence.block_hashes == hashes(ids)[:9]


def test_match_stops_at_the_first_gap() -> None:
    cache, (a, b, c) = PrefixCache(), hashes([1, 2, 3, 4, 5, 6])
    cache.publish(10, a)
    cache.publish(11, b)
    cache.publish(12, c)
    cache.publish(13, a)  # a twin: the first stays
    assert cache.match([a, b, c]) == [10, 11, 12]
    assert 13 not in cache
    cache.evict(11)
    cache.evict(99)
    assert cache.match([a, b, c]) == [10]


def test_the_disabled_cache_finds_nothing() -> None:
    cache, (a, *_) = NoPrefixCache(), hashes([1, 2])
    cache.publish(1, a)
    assert cache.match([a]) == []
