"""What was used: by a person, or by an organisation."""

from __future__ import annotations

from chat_ui.shapes.base import Shape


class DayUsage(Shape):
    """What was used of a model on a day (UTC)."""

    day: str
    """`2026-11-21`."""
    model: str
    requests: int
    input_tokens: int
    cached_tokens: int
    """Part of the input."""
    output_tokens: int
    cost_nano: int


class Budget(Shape):
    """A monthly budget. `name`: `organisation`, `project:ID` or `key:ID`."""

    name: str
    limit_nano: int
    used_nano: int
    """Spent and set aside this month."""


class BalanceShown(Shape):
    """The organisation's credit, and what it has used this month."""

    available_nano: int
    held_nano: int
    """Set aside for what is running."""
    month_used_nano: int
    budgets: list[Budget]
    """The organisation's, and the project's that chats are billed to."""


class Limit(Shape):
    """Limits of a subject (`you`, or a project's id); `null`: none."""

    subject: str
    requests_per_minute: int | None
    tokens_per_minute: int | None
    requests_per_day: int | None
    concurrent_requests: int | None


class Usage(Shape):
    """What a person used, and what is left for everybody."""

    by_day: list[DayUsage]
    balance: BalanceShown
    limits: list[Limit]


class PersonUsage(Shape):
    """What a person used of a model."""

    user: str
    """Empty: keys that are nobody's."""
    email: str
    model: str
    requests: int
    input_tokens: int
    cached_tokens: int
    output_tokens: int
    cost_nano: int


class OrganisationUsage(Shape):
    """What an organisation used."""

    by_day: list[DayUsage]
    by_person: list[PersonUsage]
    balance: BalanceShown
