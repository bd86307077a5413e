"""Sends events to the operator's URL, signed as Standard Webhooks has it (so does OpenAI: its SDK verifies ours).

    webhook-id: ID    webhook-timestamp: Unix seconds
    webhook-signature: v1,base64(HMAC-SHA256(secret, "ID.TIMESTAMP.BODY"))

Only the operator chooses the URL: nothing that a tenant says has a part in it. No redirect is followed, and of an
answer only its status is read.
"""

from __future__ import annotations

import base64
import binascii
import hashlib
import hmac
import json
import time
from collections.abc import Callable
from urllib.parse import urlsplit

import httpx2
from tenacity import AsyncRetrying, RetryError, retry_if_exception_type, stop_after_attempt, wait_random_exponential
from tenacity.wait import wait_base

from auth_billing.errors import AlertNotSent
from runtime.lifecycle import StartupError

TRIES = 4
SECONDS = 10.0
"""For one try."""
SHORTEST_SECRET = 24
PREFIX = "whsec_"
"""Before a secret in base64."""

_WAIT = wait_random_exponential(multiplier=0.5, max=10)
_AGAIN = (408, 425, 429)


class _TryAgain(Exception):
    """The receiver is away or busy."""


class Webhook:
    """One receiver. Use on one event loop, and close it.

    Args:
        url: where events go.
        secret: what they are signed with: `whsec_` and base64, or any text.
        clock: Unix seconds.
        wait: between tries.

    Raises:
        StartupError: the URL or the secret is none.
    """

    def __init__(
        self, url: str, secret: str, *, clock: Callable[[], float] = time.time, wait: wait_base = _WAIT
    ) -> None:
        self._url = _checked_url(url)
        self._secret = _secret_bytes(secret)
        self._clock = clock
        self._wait = wait
        self._client = httpx2.AsyncClient(
            headers={"accept-encoding": "identity", "user-agent": "headrace-billing"},
            timeout=httpx2.Timeout(SECONDS),
            follow_redirects=False,
        )

    async def close(self) -> None:
        """Close its connections."""
        await self._client.aclose()

    async def send(self, id: str, message: dict[str, object]) -> None:
        """Send an event, several times if the receiver is away or busy.

        Raises:
            AlertNotSent: it did not take it.
        """
        body = json.dumps(message, separators=(",", ":"))
        tries = AsyncRetrying(stop=stop_after_attempt(TRIES), wait=self._wait, retry=retry_if_exception_type(_TryAgain))
        try:
            await tries(self._post, id, body)
        except RetryError as error:
            raise AlertNotSent(str(error.last_attempt.exception())) from error

    async def _post(self, id: str, body: str) -> None:
        try:
            async with self._client.stream("POST", self._url, content=body, headers=self._headers(id, body)) as answer:
                status = answer.status_code
        except httpx2.HTTPError as error:
            raise _TryAgain(f"the receiver can't be reached: {type(error).__name__}") from error
        if status in _AGAIN or status >= 500:
            raise _TryAgain(f"the receiver answered {status}")
        if not 200 <= status < 300:
            raise AlertNotSent(f"the receiver answered {status}")

    def _headers(self, id: str, body: str) -> dict[str, str]:
        timestamp = str(int(self._clock()))
        digest = hmac.digest(self._secret, f"{id}.{timestamp}.{body}".encode(), hashlib.sha256)
        return {
            "content-type": "application/json",
            "webhook-id": id,
            "webhook-timestamp": timestamp,
            "webhook-signature": f"v1,{base64.b64encode(digest).decode()}",
        }


def _checked_url(url: str) -> str:
    try:
        parts = urlsplit(url)
        usable = parts.scheme in ("http", "https") and bool(parts.hostname) and parts.port != 0
    except ValueError:
        usable = False
    if not usable:
        raise StartupError("HEADRACE_ALERT_URL must be http://HOST/... or https://HOST/...")
    return url


def _secret_bytes(secret: str) -> bytes:
    try:
        plain = base64.b64decode(secret.removeprefix(PREFIX), validate=True) if secret.startswith(PREFIX) else None
    except binascii.Error as error:
        raise StartupError("HEADRACE_ALERT_SECRET begins with whsec_ and goes on with what is not base64") from error
    if len(secret) < SHORTEST_SECRET:
        raise StartupError(f"HEADRACE_ALERT_SECRET must have {SHORTEST_SECRET} characters or more")
    return secret.encode() if plain is None else plain
