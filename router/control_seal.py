"""The signature on control messages: who may publish to the control exchange shall not own the fleet for that.

HMAC-SHA256 under a secret that gateways, workers and proxies share, over the routing key, the time and the body. What
is unsigned, wrongly signed, sent to somebody else than it was signed for, or too old is refused. Within its time a
message can be repeated by who has seen it, which does no more than the message did. Does not know what messages say.
"""

from __future__ import annotations

import hashlib
import hmac
import time
from collections.abc import Callable, Mapping

from infra.runtime.lifecycle import StartupError
from router.errors import UntrustedControl
from router.transport.base import HeaderValue, Received

SIGNED_AT = "x-headrace-signed-at"
"""Header: milliseconds since 1970."""
SIGNATURE = "x-headrace-signature"
"""Header: 64 hexadecimal digits."""
FRESH_FOR = 120.0
"""Seconds, in both directions: no control message waits for longer (60 s), and clocks may differ by the rest."""
FEWEST_CHARACTERS = 32
FILE_NAME = "control-secret"


def sealed_by(secret: str) -> ControlSeal:
    """The seal of an installation, by its settings.

    Raises:
        StartupError: there is no secret, or it is too short.
    """
    try:
        return ControlSeal(secret)
    except ValueError as error:
        raise StartupError(
            f"HEADRACE_CONTROL_SECRET: {error}. `headrace up` keeps it in HEADRACE_HOME/secrets/{FILE_NAME}; "
            "`headrace control-secret` prints the one that follows from the key pepper"
        ) from error


class ControlSeal:
    """Signs and checks.

    Args:
        secret: what all processes of the installation share; `FEWEST_CHARACTERS` at least.
        clock: Unix seconds.

    Raises:
        ValueError: the secret is too short.
    """

    def __init__(self, secret: str, clock: Callable[[], float] = time.time) -> None:
        if len(secret) < FEWEST_CHARACTERS:
            raise ValueError(f"a control secret has {FEWEST_CHARACTERS} characters at least")
        self._secret = secret.encode()
        self._clock = clock

    def sign(self, target: str, body: bytes) -> Mapping[str, HeaderValue]:
        """The headers with which `body` is to be sent to `target`."""
        now = int(self._clock() * 1000)
        return {SIGNED_AT: now, SIGNATURE: self._signature(target, now, body)}

    def check(self, received: Received) -> None:
        """See that somebody who knows the secret has just sent this, to here.

        Raises:
            UntrustedControl: unsigned, forged or old.
        """
        at, signature = received.headers.get(SIGNED_AT), received.headers.get(SIGNATURE)
        if type(at) is not int or not isinstance(signature, str):
            raise UntrustedControl("unsigned")
        expected = self._signature(received.routing_key, at, received.body)
        if not hmac.compare_digest(expected.encode(), signature.encode(errors="surrogatepass")):
            raise UntrustedControl("forged")
        if abs(self._clock() - at / 1000) > FRESH_FOR:
            raise UntrustedControl("old")

    def _signature(self, target: str, at: int, body: bytes) -> str:
        return hmac.new(self._secret, f"{target}\n{at}\n".encode() + body, hashlib.sha256).hexdigest()
