"""Counts HTTP requests against their callers' rate limits, reports the limits in headers, and releases them at the end.

The allowance is kept in the ASGI scope, so that every response, an error or a stream, carries the headers, and the
middleware can close it at the very end.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, MutableMapping
from contextlib import contextmanager
from typing import Any

from starlette.requests import Request

from auth_billing.access.principal import Principal
from auth_billing.rate_limits.lease import LimitStatus
from auth_billing.rate_limits.limiter import Allowance
from auth_billing.rate_limits.limits import UNLIMITED, SubjectKind
from gateway.http.gateway import gateway_of

_KEY = "headrace.allowance"

_OF_CALLER = (SubjectKind.KEY, SubjectKind.PERSON)

_NO_LIMIT = LimitStatus(UNLIMITED, UNLIMITED, 0.0)


async def enter(request: Request, principal: Principal) -> Allowance:
    """Count a request against the rate limits of `principal`, and return its allowance; later calls return that one.

    Raises:
        RateLimitExceeded, StoreUnavailable: A limit is reached, or the limits can't be read.
    """
    allowance: Allowance | None = request.scope.get(_KEY)
    if allowance is None:
        allowance = gateway_of(request).limits.allowance(principal)
        request.scope[_KEY] = allowance
        await allowance.enter()
    return allowance


def allowance_of(request: Request) -> Allowance:
    """Return the rate limit allowance that `enter` made for a request, to charge its tokens against."""
    allowance: Allowance = request.scope[_KEY]
    return allowance


@contextmanager
def retained(scope: Mapping[str, Any]) -> Iterator[None]:
    """Count a request as running until the block ends, though its response may end before, by keeping its allowance."""
    allowance: Allowance = scope[_KEY]
    allowance.retain()
    try:
        yield
    finally:
        allowance.close()


def leave(scope: MutableMapping[str, Any]) -> None:
    """Stop counting an ended request as running: close the rate limit allowance that `enter` made, if any."""
    if (allowance := scope.get(_KEY)) is not None:
        allowance.close()


def headers(scope: Mapping[str, Any]) -> dict[str, str]:
    """Return the `x-ratelimit-*` headers of a request's response; empty if `enter` has not counted the request."""
    allowance: Allowance | None = scope.get(_KEY)
    if allowance is None:
        return {}
    statuses = allowance.statuses()
    requests = _tightest(status for _, dimension, status in statuses if not dimension.counts_tokens)
    tokens = _tightest(status for _, dimension, status in statuses if dimension.counts_tokens)
    by_name = {"requests": requests or _NO_LIMIT, "tokens": tokens or _NO_LIMIT}
    of_project = _tightest(
        status for kind, dimension, status in statuses if dimension.counts_tokens and kind not in _OF_CALLER
    )
    if of_project is not None:
        by_name["project-tokens"] = of_project
    return {
        f"x-ratelimit-{what}-{name}": value
        for name, status in by_name.items()
        for what, value in (
            ("limit", str(status.limit)),
            ("remaining", str(status.remaining)),
            ("reset", duration(status.reset)),
        )
    }


def duration(seconds: float) -> str:
    """Format `seconds` as OpenAI's rate limit headers do: `12ms`, `1s`, `8.64s`, `6m0s`, `23h18m29.144s`."""
    milliseconds = max(0, round(seconds * 1000))
    if milliseconds < 1000:
        return f"{milliseconds}ms" if milliseconds else "0s"
    minutes, rest = divmod(milliseconds, 60_000)
    text = f"{rest / 1000:.3f}".rstrip("0").rstrip(".") + "s"
    if not minutes:
        return text
    hours, minutes = divmod(minutes, 60)
    return f"{hours}h{minutes}m{text}" if hours else f"{minutes}m{text}"


def _tightest(statuses: Iterable[LimitStatus]) -> LimitStatus | None:
    return min(statuses, key=lambda status: status.remaining, default=None)
