"""What a control message must be to be obeyed: signed, for here, and just now."""

from __future__ import annotations

import pytest

from router.control_seal import FEWEST_CHARACTERS, FRESH_FOR, SIGNATURE, SIGNED_AT, ControlSeal, sealed_by
from router.errors import UntrustedControl
from router.transport.base import HeaderValue, Received
from runtime.lifecycle import StartupError
from tests.fakes.accounts import FakeClock

SECRET = "s" * FEWEST_CHARACTERS
BODY = b'{"type":"drain","v":1}'


@pytest.fixture
def clock() -> FakeClock:
    return FakeClock(1_700_000_000.25)


@pytest.fixture
def seal(clock: FakeClock) -> ControlSeal:
    return ControlSeal(SECRET, clock)


def test_what_is_signed_is_trusted_in_its_time_and_its_place(seal: ControlSeal, clock: FakeClock) -> None:
    headers = seal.sign("worker.w", BODY)
    for drift in (0.0, FRESH_FOR, -FRESH_FOR):
        clock.now = 1_700_000_000.25 + drift
        ControlSeal(SECRET, clock).check(Received("worker.w", BODY, headers))
    for drift in (FRESH_FOR + 0.01, -FRESH_FOR - 0.01, 1e18):
        clock.now = 1_700_000_000.25 + drift
        with pytest.raises(UntrustedControl, match="old"):
            seal.check(Received("worker.w", BODY, headers))


def test_nothing_of_it_can_be_changed(seal: ControlSeal) -> None:
    signed = dict(seal.sign("worker.w", BODY))
    at = signed[SIGNED_AT]
    assert isinstance(at, int)
    forged = [
        Received("all", BODY, signed),
        Received("worker.w", BODY + b" ", signed),
        Received("worker.w", BODY, {**signed, SIGNED_AT: at + 1}),
        Received("worker.w", BODY, {**signed, SIGNATURE: "0" * 64}),
        Received("worker.w", BODY, {**signed, SIGNATURE: "\udcff"}),
        Received("worker.w", BODY, ControlSeal("t" * FEWEST_CHARACTERS).sign("worker.w", BODY)),
    ]
    for received in forged:
        with pytest.raises(UntrustedControl, match="forged"):
            seal.check(received)


@pytest.mark.parametrize(
    "headers",
    [{}, {SIGNED_AT: 1}, {SIGNATURE: "x"}, {SIGNED_AT: "1", SIGNATURE: "x"}, {SIGNED_AT: True, SIGNATURE: "x"}],
)
def test_what_has_no_signature_is_unsigned(seal: ControlSeal, headers: dict[str, HeaderValue]) -> None:
    with pytest.raises(UntrustedControl, match="unsigned"):
        seal.check(Received("all", BODY, headers))


def test_numbers_of_any_size_are_only_forged(seal: ControlSeal) -> None:
    for at in (2**63, -(2**63), 10**400):
        with pytest.raises(UntrustedControl, match="forged"):
            seal.check(Received("all", BODY, {SIGNED_AT: at, SIGNATURE: "x"}))


@pytest.mark.parametrize("secret", ["", "short"])
def test_a_process_does_not_start_without_a_secret(secret: str) -> None:
    with pytest.raises(StartupError, match="HEADRACE_CONTROL_SECRET"):
        sealed_by(secret)
