"""The bank keeps logits exactly as long as their blocks are cached."""

from __future__ import annotations

from array import array

from inference_worker.engine.scheduling.prefix_cache import extend_hashes
from inference_worker.engine.scoring.score_bank import ScoreBank, scored_prefix
from inference_worker.engine.sequence import Sequence
from router.messages import SamplingParams


def sequence(tokens: int) -> Sequence:
    made = Sequence("r", 0, array("q", range(tokens)), tokens, SamplingParams(seed=0), 1)
    extend_hashes(made, tokens // 2, 2)
    return made


def test_logits_end_with_their_block() -> None:
    bank = ScoreBank()
    bank.store(b"unknown", 0, 0.5)
    assert bank.logits(b"unknown") == {}
    bank.publish(3, b"a")
    bank.store(b"a", 1, 0.5)
    assert bank.logits(b"a") == {1: 0.5}
    bank.evict(3)
    bank.evict(4)
    assert bank.logits(b"a") == {}


def test_a_prefix_ends_before_a_block_whose_logits_are_missing() -> None:
    bank, wanted = ScoreBank(), sequence(8)
    for block, digest in enumerate(wanted.block_hashes):
        bank.publish(block, digest)
    bank.store(wanted.block_hashes[0], 1, 0.25)
    assert scored_prefix(bank, wanted, [0, 1, 2], [1], 2) == ([0, 1, 2], {1: 0.25})
    assert scored_prefix(bank, wanted, [0, 1, 2], [1, 4], 2) == ([0, 1], {1: 0.25})
    assert scored_prefix(bank, wanted, [0, 1, 2], [0], 2) == ([], {})
    assert scored_prefix(bank, wanted, [0, 1, 2], [7], 2) == ([0, 1, 2], {})
