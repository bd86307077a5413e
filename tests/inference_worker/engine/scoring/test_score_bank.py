"""The bank keeps tokens and logits exactly as long as their blocks are cached, and finds what blocks begin with."""

from __future__ import annotations

from array import array

from inference_worker.engine.scheduling.prefix_cache import extend_hashes, hash_before
from inference_worker.engine.scoring.score_bank import ScoreBank, scored_beginning, scored_prefix
from inference_worker.engine.sequence import Sequence
from router.messages import SamplingParams


def sequence(tokens: int, size: int = 2) -> Sequence:
    made = Sequence("r", 0, array("q", range(tokens)), tokens, SamplingParams(seed=0), 1)
    extend_hashes(made, tokens // size, size)
    return made


def test_tokens_and_logits_end_with_their_block() -> None:
    bank = ScoreBank()
    bank.store(3, b"a", array("q", [1, 2]), {1: 0.5})
    assert 3 in bank
    assert bank.logits(3) == {1: 0.5}
    assert bank.find_beginning(b"a", array("q", [1, 7])) == (3, 1)
    bank.evict(3)
    bank.evict(4)
    assert 3 not in bank
    assert bank.logits(3) == {}
    assert bank.find_beginning(b"a", array("q", [1, 7]))[1] == 0


def test_a_prefix_ends_before_a_block_whose_logits_are_missing() -> None:
    bank = ScoreBank()
    bank.store(0, b"", array("q", [0, 1]), {1: 0.25})
    assert scored_prefix(bank, [0, 1, 2], [1], 2) == ([0, 1, 2], {1: 0.25})
    assert scored_prefix(bank, [0, 1, 2], [1, 4], 2) == ([0, 1], {1: 0.25})
    assert scored_prefix(bank, [0, 1, 2], [0], 2) == ([], {})
    assert scored_prefix(bank, [0, 1, 2], [7], 2) == ([0, 1, 2], {})


def test_the_block_that_begins_with_the_most_tokens_is_found() -> None:
    bank = ScoreBank()
    for block, tokens in enumerate([[5, 6], [5, 6, 7], [5, 6, 8, 9]]):
        bank.store(block, b"a", array("q", tokens), {})
    assert bank.find_beginning(b"a", array("q", [5, 6, 7, 9])) == (1, 3)
    assert bank.find_beginning(b"a", array("q", [5, 6, 8])) == (2, 3)
    assert bank.find_beginning(b"b", array("q", [5, 6, 8]))[1] == 0


def test_a_beginning_ends_before_an_unknown_logit_and_the_last_token() -> None:
    bank, wanted = ScoreBank(), sequence(8, size=4)
    bank.store(9, hash_before(wanted, 1), array("q", [4, 5, 6, 7]), {5: 0.25})
    assert scored_beginning(bank, wanted, 1, [5], 4) == (9, 3, {5: 0.25})
    assert scored_beginning(bank, wanted, 1, [5, 6], 4) == (9, 2, {5: 0.25})
    assert scored_beginning(bank, wanted, 1, [2, 4], 4) == (9, 0, {})
    assert scored_beginning(bank, wanted, 0, [], 4)[1] == 0
