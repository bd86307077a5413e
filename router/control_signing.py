"""Signs control messages under a secret that gateways, workers and proxies share, and rejects forged or old ones.

The right to publish to their exchange does not suffice to control workers. The signature is an HMAC-SHA256 over the
routing key, the time and the body. Messages that are unsigned, wrongly signed, signed for another target or too old are
rejected. A message can be replayed until it is too old; a replay does no more than the original did.
"""

from __future__ import annotations

import hashlib
import hmac
import time
from collections.abc import Callable, Mapping

from router.errors import UntrustedControl
from router.transport.base import HeaderValue, Received
from runtime.lifecycle import StartupError

SIGNED_AT = "x-headrace-signed-at"
"""Header name; its value is the signing time in Unix milliseconds."""
SIGNATURE = "x-headrace-signature"
"""Header name; its value is the HMAC as 64 hexadecimal digits."""
MAX_MESSAGE_AGE = 120.0
"""Maximum age in seconds, in both directions: messages expire from queues after 60 s, clocks may differ by the rest."""
MIN_SECRET_LENGTH = 32
"""Minimum length of the secret."""
SECRET_FILE_NAME = "control-secret"  # noqa: S105 - a file name


def control_signer(secret: str) -> ControlSigner:
    """Create the signer of control messages from the installation's control secret, a setting.

    Raises:
        StartupError: the secret is missing or too short.
    """
    try:
        return ControlSigner(secret)
    except ValueError as error:
        raise StartupError(
            f"HEADRACE_CONTROL_SECRET: {error}. `headrace up` keeps it in HEADRACE_HOME/secrets/{SECRET_FILE_NAME}; "
            "`headrace control-secret` prints the one that follows from the key pepper"
        ) from error


class ControlSigner:
    """Signs and verifies control messages.

    Args:
        secret: shared by all processes of the installation; at least `MIN_SECRET_LENGTH` long.
        clock: returns Unix seconds.

    Raises:
        ValueError: the secret is too short.
    """

    def __init__(self, secret: str, clock: Callable[[], float] = time.time) -> None:
        if len(secret) < MIN_SECRET_LENGTH:
            raise ValueError(f"a control secret has {MIN_SECRET_LENGTH} characters at least")
        self._secret = secret.encode()
        self._clock = clock

    def sign(self, target: str, body: bytes) -> Mapping[str, HeaderValue]:
        """Return the AMQP headers (time and HMAC) that sign the message `body` to the routing key `target` now."""
        now = int(self._clock() * 1000)
        return {SIGNED_AT: now, SIGNATURE: self._signature(target, now, body)}

    def verify(self, received: Received) -> None:
        """Check that a received control message was signed recently, with the installation's secret, for its target.

        Raises:
            UntrustedControl: the message is unsigned, forged or old.
        """
        at, signature = received.headers.get(SIGNED_AT), received.headers.get(SIGNATURE)
        if type(at) is not int or not isinstance(signature, str):
            raise UntrustedControl("unsigned")
        expected = self._signature(received.routing_key, at, received.body)
        if not hmac.compare_digest(expected.encode(), signature.encode(errors="surrogatepass")):
            raise UntrustedControl("forged")
        if abs(self._clock() - at / 1000) > MAX_MESSAGE_AGE:
            raise UntrustedControl("old")

    def _signature(self, target: str, at: int, body: bytes) -> str:
        return hmac.new(self._secret, f"{target}\n{at}\n".encode() + body, hashlib.sha256).hexdigest()
