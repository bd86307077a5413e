"""What of an upstream's answer was released to the gateway."""

from __future__ import annotations

from unittest.mock import Mock

from proxy.forwarded_attempt import ForwardedAttempt
from proxy.stream import ChoiceDelta
from router.messages import SamplingParams
from router.transport.base import Delivery
from tests.fakes.jobs import make_job


def test_an_attempt_that_has_released_text_is_not_suspected_of_crashing_workers() -> None:
    attempt = ForwardedAttempt(make_job(), Mock(spec=Delivery), solo=True)
    delta = attempt.release(ChoiceDelta(choice=0, text="Hello", logprobs=None, calls=None, finish=None))
    assert (delta.text, delta.start, delta.positions) == ("Hello", 0, 1)
    assert (attempt.progressed, attempt.solo, attempt.begun) == (True, False, True)


def test_a_long_piece_covers_its_estimated_tokens_up_to_the_jobs_limit() -> None:
    """A client that disconnects pays for the positions that were delivered: some providers send many tokens at once."""
    attempt = ForwardedAttempt(
        make_job(sampling=SamplingParams(seed=1, max_tokens=150)), Mock(spec=Delivery), max_model_len=10_000
    )
    sizes = (400, 1, 400, 400)
    pieces = [ChoiceDelta(choice=0, text="x" * size, logprobs=None, calls=None, finish=None) for size in sizes]
    deltas = [attempt.release(piece) for piece in pieces]
    assert [delta.positions for delta in deltas] == [100, 1, 49, 1]
    assert [delta.start for delta in deltas] == [0, 100, 101, 150]
