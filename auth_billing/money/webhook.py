"""Webhook client: posts billing alerts to the operator's URL, signed as Standard Webhooks specifies.

    webhook-id: ID    webhook-timestamp: Unix seconds
    webhook-signature: v1,base64(HMAC-SHA256(secret, "ID.TIMESTAMP.BODY"))

OpenAI's SDK verifies the signature. Only the operator sets the URL; no tenant's input is part of it. Redirects are not
followed, and only the status of a response is read.
"""

from __future__ import annotations

import base64
import binascii
import hashlib
import hmac
import json
import time
from urllib.parse import urlsplit

import httpx2
from tenacity import AsyncRetrying, RetryError, retry_if_exception_type, stop_after_attempt
from tenacity.wait import wait_base

from auth_billing.errors import AlertNotSent
from runtime.lifecycle import StartupError
from runtime.retry import exponential_backoff

MAX_TRIES = 4
TIMEOUT = 10.0
"""Seconds for one try."""
MIN_SECRET_LENGTH = 24
PREFIX = "whsec_"
"""The prefix of a secret that is written in base64."""

_WAIT = exponential_backoff(first=0.5, longest=10.0)
_RETRYABLE = (408, 425, 429)


class _RetryableError(Exception):
    """The receiver is unreachable or overloaded."""


class Webhook:
    """An HTTP client that sends signed alerts to one receiver. Use it on one event loop, and close it.

    Args:
        url: the receiver's URL.
        secret: the signing secret: `whsec_` and base64, or any text.
        wait: the pause between tries.

    Raises:
        StartupError: the URL or the secret is malformed.
    """

    def __init__(self, url: str, secret: str, *, wait: wait_base = _WAIT) -> None:
        self._url = _checked_url(url)
        self._secret = _secret_bytes(secret)
        self._wait = wait
        self._client = httpx2.AsyncClient(
            headers={"accept-encoding": "identity", "user-agent": "headrace-billing"},
            timeout=httpx2.Timeout(TIMEOUT),
            follow_redirects=False,
        )

    async def close(self) -> None:
        """Close the HTTP connections to the webhook's receiver; the webhook can't be used afterwards."""
        await self._client.aclose()

    async def send(self, id: str, message: dict[str, object]) -> None:
        """Post a signed event to the operator's URL, in up to `MAX_TRIES` tries.

        `message` has the event's `id`. A try is repeated if the receiver is unreachable or overloaded.

        Raises:
            AlertNotSent: the receiver refused the event, or all tries failed.
        """
        body = json.dumps(message, separators=(",", ":"))
        tries = AsyncRetrying(
            stop=stop_after_attempt(MAX_TRIES), wait=self._wait, retry=retry_if_exception_type(_RetryableError)
        )
        try:
            await tries(self._post, id, body)
        except RetryError as error:
            raise AlertNotSent(str(error.last_attempt.exception())) from error

    async def _post(self, id: str, body: str) -> None:
        try:
            async with self._client.stream(
                "POST", self._url, content=body, headers=self._headers(id, body)
            ) as response:
                status = response.status_code
        except httpx2.HTTPError as error:
            raise _RetryableError(f"the receiver can't be reached: {type(error).__name__}") from error
        if status in _RETRYABLE or status >= 500:
            raise _RetryableError(f"the receiver answered {status}")
        if not 200 <= status < 300:
            raise AlertNotSent(f"the receiver answered {status}")

    def _headers(self, id: str, body: str) -> dict[str, str]:
        timestamp = str(int(time.time()))
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
        raise StartupError("HEADRACE_ALERT_SECRET is not base64 after its prefix whsec_") from error
    if len(secret) < MIN_SECRET_LENGTH:
        raise StartupError(f"HEADRACE_ALERT_SECRET must have {MIN_SECRET_LENGTH} characters or more")
    return secret.encode() if plain is None else plain
