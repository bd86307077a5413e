"""What of an upstream's answer was released to the gateway."""

from __future__ import annotations

from unittest.mock import Mock

from proxy.forwarded_attempt import ForwardedAttempt
from proxy.stream import ChoiceDelta
from router.transport.base import Delivery
from tests.fakes.jobs import make_job


def test_an_attempt_that_has_released_text_is_not_suspected_of_crashing_workers() -> None:
    attempt = ForwardedAttempt(make_job(), Mock(spec=Delivery), solo=True)
    delta = attempt.release(ChoiceDelta(choice=0, text="Hello", logprobs=None, calls=None, finish=None))
    assert (delta.text, delta.start, delta.positions) == ("Hello", 0, 1)
    assert (attempt.progressed, attempt.solo, attempt.begun) == (True, False, True)
