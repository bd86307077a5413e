"""The limits of one request on its way through the gateway: entered with its key, charged with its model, told in
headers, left at its end.

The allowance travels in the ASGI scope, so that whatever is answered, an error or a stream, carries the headers, and so
that it is closed by whoever sees the very end. Knows no bucket and no store.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, MutableMapping, Sequence
from typing import Any

from starlette.requests import Request
from starlette.types import ASGIApp, Receive, Scope, Send

from auth_billing.access.principal import Principal
from auth_billing.rate_limits.lease import Standing
from auth_billing.rate_limits.limiter import Allowance
from auth_billing.rate_limits.limits import UNLIMITED, Kind
from gateway.admission.admit import Reservation
from gateway.http.gateway import gateway_of
from router.messages import Job, TokenPrompt, Usage
from router.registry import ModelInfo
from router.usage_bound import most_usage

_KEY = "headrace.allowance"
_SURE_SHARE = 8
"""A text has at least an eighth of the tokens that it may have at most: words have a fourth (`usage_bound`)."""

_NO_LIMIT = Standing(UNLIMITED, UNLIMITED, 0.0)


async def enter(request: Request, principal: Principal) -> Allowance:
    """Take a request and a slot for `principal`, unless it was done for this request before.

    Raises:
        RateLimitExceeded, StoreUnavailable: it may not run.
    """
    allowance: Allowance | None = request.scope.get(_KEY)
    if allowance is None:
        allowance = gateway_of(request).limits.allowance(principal)
        request.scope[_KEY] = allowance
        await allowance.enter()
    return allowance


async def charge(request: Request, reservation: Reservation, jobs: Sequence[Job], used: Callable[[], int]) -> None:
    """Take the tokens that `jobs` may use; in the end they will have `used` so many.

    Raises:
        RateLimitExceeded, StoreUnavailable: they may not run.
    """
    await charge_allowance(request.scope[_KEY], reservation, jobs, used)


async def charge_allowance(
    allowance: Allowance, reservation: Reservation, jobs: Sequence[Job], used: Callable[[], int]
) -> None:
    """As `charge`, for what has no request."""
    model = reservation.model
    most = [most_usage(job, model.longest_model_len, model.prompt_bounds) for job in jobs]
    await allowance.charge(
        model.name,
        most=sum(usage.prompt_tokens + usage.completion_tokens for usage in most),
        least=sum(_surely(job, usage, model) for job, usage in zip(jobs, most, strict=True)),
        used=used,
    )


def _surely(job: Job, most: Usage, model: ModelInfo) -> int:
    """Tokens of a prompt that it has in any case."""
    if isinstance(job.prompt, TokenPrompt):
        return most.prompt_tokens
    return most.prompt_tokens // _SURE_SHARE if model.prompt_bounds.per_byte else 0


def shared(app: ASGIApp) -> ASGIApp:
    """`app`, which may go on when the request that started it has ended: the allowance stays open for both."""

    async def with_allowance(scope: Scope, receive: Receive, send: Send) -> None:
        allowance: Allowance = scope[_KEY]
        allowance.reopen()
        try:
            await app(scope, receive, send)
        finally:
            allowance.close()

    return with_allowance


def leave(scope: MutableMapping[str, Any]) -> None:
    """The request has ended, if it ever entered."""
    if (allowance := scope.get(_KEY)) is not None:
        allowance.close()


def headers(scope: Mapping[str, Any]) -> dict[str, str]:
    """How the limits stand that the request falls under; nothing for one that fell under none."""
    allowance: Allowance | None = scope.get(_KEY)
    if allowance is None:
        return {}
    standings = allowance.standings()
    requests = _tightest(standing for _, dimension, standing in standings if not dimension.counts_tokens)
    tokens = _tightest(standing for _, dimension, standing in standings if dimension.counts_tokens)
    said = {"requests": requests or _NO_LIMIT, "tokens": tokens or _NO_LIMIT}
    of_project = _tightest(
        standing for kind, dimension, standing in standings if dimension.counts_tokens and kind is not Kind.KEY
    )
    if of_project is not None:
        said["project-tokens"] = of_project
    return {
        f"x-ratelimit-{what}-{name}": value
        for name, standing in said.items()
        for what, value in (
            ("limit", str(standing.limit)),
            ("remaining", str(standing.remaining)),
            ("reset", duration(standing.reset)),
        )
    }


def duration(seconds: float) -> str:
    """As OpenAI writes it: `12ms`, `1s`, `8.64s`, `6m0s`, `23h18m29.144s`."""
    milliseconds = max(0, round(seconds * 1000))
    if milliseconds < 1000:
        return f"{milliseconds}ms" if milliseconds else "0s"
    minutes, rest = divmod(milliseconds, 60_000)
    text = f"{rest / 1000:.3f}".rstrip("0").rstrip(".") + "s"
    if not minutes:
        return text
    hours, minutes = divmod(minutes, 60)
    return f"{hours}h{minutes}m{text}" if hours else f"{minutes}m{text}"


def _tightest(standings: Iterable[Standing]) -> Standing | None:
    return min(standings, key=lambda standing: standing.remaining, default=None)
