"""Request and response models of the administration routes of rate limits."""

from __future__ import annotations

from typing import Annotated

from fastapi import Depends
from pydantic import Field, StringConstraints

from auth_billing.rate_limits.limits import UNLIMITED
from chat_ui.http.request_bodies import Body, body_of
from chat_ui.http.schemas.base import QueryParameters, Schema
from chat_ui.http.schemas.usage import LimitValues

SubjectName = Annotated[str, StringConstraints(min_length=1, max_length=300)]
Value = Annotated[int, Field(ge=1, lt=UNLIMITED)] | None


class RateLimitRow(Schema):
    """Rate limits of one subject; of each two the lower one applies."""

    subject: str
    """`organisation`, `project:ID`, `model:NAME` (in all projects), `key:ID` or `person:ID`."""
    label: str
    """Display name of the subject; empty: the organisation."""
    own: LimitValues
    """Limits that the organisation's administrators have set."""
    ceiling: LimitValues
    """The operator's limits."""


class RateLimitRows(Schema):
    """Rate limits of subjects."""

    limits: list[RateLimitRow]


class RateLimitsQuery(QueryParameters):
    """Query of rate limits."""

    subject: SubjectName | None = None
    """The only subject to return; default: the organisation, its models and its active projects."""


class RateLimitsBody(Body):
    """All limits that the organisation sets for a subject; `null`: only the operator's limit applies."""

    subject: SubjectName
    requests_per_minute: Value
    tokens_per_minute: Value
    requests_per_day: Value
    concurrent_requests: Value


RateLimitsJson = Annotated[RateLimitsBody, Depends(body_of(RateLimitsBody))]
