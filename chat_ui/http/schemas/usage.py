"""Response models of usage reports of a person or an organisation, with balance and limits."""

from __future__ import annotations

from pydantic import Field

from chat_ui.http.schemas.base import Schema


class DayUsage(Schema):
    """Usage of a model on one day (UTC)."""

    day: str
    """`2026-11-21`."""
    model: str
    requests: int
    input_tokens: int
    cached_tokens: int
    """Part of `input_tokens`."""
    output_tokens: int
    cost_nano: int = Field(validation_alias="cost")


class Budget(Schema):
    """A monthly budget. `name`: `organisation`, `project:ID` or `key:ID`."""

    name: str
    limit_nano: int
    used_nano: int
    """Spent and held this month."""


class BalanceSummary(Schema):
    """The organisation's credit balance, and its usage this month."""

    available_nano: int
    held_nano: int
    """Held for running requests."""
    month_used_nano: int
    budgets: list[Budget]
    """Budgets of the organisation and of the project that chats are billed to."""


class LimitValues(Schema):
    """Rate limits; `null`: no limit."""

    requests_per_minute: int | None
    tokens_per_minute: int | None
    requests_per_day: int | None
    concurrent_requests: int | None


class Limit(LimitValues):
    """Rate limits of a subject: `you`, a project's id, or `organisation`."""

    subject: str


class Storage(Schema):
    """Bytes of conversations, messages and files that a person has stored, and may store."""

    used_bytes: int
    limit_bytes: int


class Usage(Schema):
    """A person's usage, rate limits and stored bytes, and the organisation's balance."""

    by_day: list[DayUsage]
    balance: BalanceSummary
    limits: list[Limit]
    storage: Storage


class PersonUsage(Schema):
    """A person's usage of a model."""

    user: str
    """Empty: keys that belong to no person."""
    email: str
    model: str
    requests: int
    input_tokens: int
    cached_tokens: int
    output_tokens: int
    cost_nano: int = Field(validation_alias="cost")


class OrganisationUsage(Schema):
    """An organisation's usage and balance."""

    by_day: list[DayUsage]
    by_person: list[PersonUsage]
    balance: BalanceSummary
