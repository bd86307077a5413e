"""Control messages are accepted only if signed, for this target, and recent."""

from __future__ import annotations

import pytest

from router.control_signing import (
    MAX_MESSAGE_AGE,
    MIN_SECRET_LENGTH,
    SIGNATURE,
    SIGNED_AT,
    ControlSigner,
    control_signer,
)
from router.errors import UntrustedControl
from router.transport.base import HeaderValue, Received
from runtime.lifecycle import StartupError
from tests.fakes.accounts import FakeClock

SECRET = "s" * MIN_SECRET_LENGTH
BODY = b'{"type":"drain","v":1}'


@pytest.fixture
def clock() -> FakeClock:
    return FakeClock(1_700_000_000.25)


@pytest.fixture
def signer(clock: FakeClock) -> ControlSigner:
    return ControlSigner(SECRET, clock)


def test_a_signed_message_is_accepted_for_its_target_until_it_is_too_old(
    signer: ControlSigner, clock: FakeClock
) -> None:
    headers = signer.sign("worker.w", BODY)
    for drift in (0.0, MAX_MESSAGE_AGE, -MAX_MESSAGE_AGE):
        clock.now = 1_700_000_000.25 + drift
        ControlSigner(SECRET, clock).verify(Received("worker.w", BODY, headers))
    for drift in (MAX_MESSAGE_AGE + 0.01, -MAX_MESSAGE_AGE - 0.01, 1e18):
        clock.now = 1_700_000_000.25 + drift
        with pytest.raises(UntrustedControl, match="old"):
            signer.verify(Received("worker.w", BODY, headers))


def test_any_change_of_a_signed_message_makes_it_forged(signer: ControlSigner) -> None:
    signed = dict(signer.sign("worker.w", BODY))
    at = signed[SIGNED_AT]
    assert isinstance(at, int)
    forged = [
        Received("all", BODY, signed),
        Received("worker.w", BODY + b" ", signed),
        Received("worker.w", BODY, {**signed, SIGNED_AT: at + 1}),
        Received("worker.w", BODY, {**signed, SIGNATURE: "0" * 64}),
        Received("worker.w", BODY, {**signed, SIGNATURE: "\udcff"}),
        Received("worker.w", BODY, ControlSigner("t" * MIN_SECRET_LENGTH).sign("worker.w", BODY)),
    ]
    for received in forged:
        with pytest.raises(UntrustedControl, match="forged"):
            signer.verify(received)


@pytest.mark.parametrize(
    "headers",
    [{}, {SIGNED_AT: 1}, {SIGNATURE: "x"}, {SIGNED_AT: "1", SIGNATURE: "x"}, {SIGNED_AT: True, SIGNATURE: "x"}],
)
def test_a_message_without_a_signature_is_unsigned(signer: ControlSigner, headers: dict[str, HeaderValue]) -> None:
    with pytest.raises(UntrustedControl, match="unsigned"):
        signer.verify(Received("all", BODY, headers))


def test_timestamps_of_any_size_are_forged_without_an_error(signer: ControlSigner) -> None:
    for at in (2**63, -(2**63), 10**400):
        with pytest.raises(UntrustedControl, match="forged"):
            signer.verify(Received("all", BODY, {SIGNED_AT: at, SIGNATURE: "x"}))


@pytest.mark.parametrize("secret", ["", "short"])
def test_a_process_does_not_start_without_a_secret(secret: str) -> None:
    with pytest.raises(StartupError, match="HEADRACE_CONTROL_SECRET"):
        control_signer(secret)
