"""Reads usage by day (UTC), model and person, balances and rate limits, as response models of the usage pages."""

from __future__ import annotations

import time
from dataclasses import asdict
from datetime import UTC, datetime

from auth_billing.money.billing_records import Balance
from auth_billing.money.budgets import budget_usage
from auth_billing.money.holds import ORGANISATION_BUDGET, month_of, project_budget
from auth_billing.money.usage_reports import Dimension, UsageFilter
from auth_billing.money.usage_rollups import HOUR
from auth_billing.rate_limits.limits import (
    UNLIMITED,
    Limits,
    key_subject,
    organisation_subject,
    person_subject,
    project_subject,
)
from chat_ui.admin_services import AdminServices
from chat_ui.history.records import Owner
from chat_ui.http.schemas.usage import BalanceSummary, Budget, DayUsage, Limit, PersonUsage

DAY_SECONDS = 86_400
MAX_DAYS = 366
MAX_ROWS = 20_000
ONE_BUCKET = 10**8 * HOUR
"""Bucket length in seconds that puts all usage into one bucket: whole hours, so that past hours come from rollups."""


async def by_day(admin: AdminServices, organisation: str, days: int, user: str | None = None) -> list[DayUsage]:
    """Return the usage of an organisation, or only of its member `user`, with a row per UTC day and model.

    The usage covers the last `days`, today included.
    """
    usage_filter = _filter(organisation, days, user)
    rows = await admin.administration.usage.rows(usage_filter, DAY_SECONDS, [Dimension.MODEL], MAX_ROWS)
    return [
        DayUsage.model_validate(
            {**vars(row), **row.group, "day": datetime.fromtimestamp(row.start, UTC).date().isoformat()}
        )
        for row in rows
    ]


async def by_person(admin: AdminServices, organisation: str, days: int) -> list[PersonUsage]:
    """Read an organisation's usage in the last `days`, today included; return a row per person and model."""
    usage_filter = _filter(organisation, days, None)
    rows = await admin.administration.usage.rows(usage_filter, ONE_BUCKET, [Dimension.USER, Dimension.MODEL], MAX_ROWS)
    members = await admin.administration.members.all(organisation)
    emails = {each.user.id: each.user.email for each in members}
    return [
        PersonUsage.model_validate({**vars(row), **row.group, "email": emails.get(row.group[Dimension.USER], "")})
        for row in rows
    ]


async def balance(admin: AdminServices, organisation: str, project: str | None) -> BalanceSummary:
    """Read an organisation's credit balance, this month's usage and budgets.

    With `project`, only budgets that limit its requests.
    """
    found = await admin.balances.find(organisation) or Balance(organisation, 0, 0)
    uses = {each.name: each for each in budget_usage(found, month_of(time.time()))}
    applicable = None if project is None else (ORGANISATION_BUDGET, project_budget(project))
    organisation_usage = uses.get(ORGANISATION_BUDGET)
    return BalanceSummary(
        available_nano=found.available,
        held_nano=sum(hold.amount for hold in found.held.values()),
        month_used_nano=0 if organisation_usage is None else organisation_usage.spent + organisation_usage.held,
        budgets=[
            Budget(name=each.name, limit_nano=each.limit, used_nano=each.spent + each.held)
            for each in uses.values()
            if each.limit is not None and (applicable is None or each.name in applicable)
        ],
    )


async def limits(admin: AdminServices, owner: Owner, project: str) -> list[Limit]:
    """Read the rate limits in force on a person's chats in a project, for any model.

    There is a row per subject: person, project, organisation.
    """
    subjects = [key_subject("", owner.user)]
    names = ["you"]
    if project:
        subjects += [
            person_subject(owner.organisation, owner.user),
            project_subject(project),
            organisation_subject(owner.organisation),
        ]
        names += [project, "organisation"]
    chats, *others = await admin.limits.limits_of(subjects)
    found = [chats.lowered_by(others[0]), *others[1:]] if others else [chats]
    return [Limit(subject=name, **limit_values(each)) for name, each in zip(names, found, strict=True)]


def limit_values(limits: Limits) -> dict[str, int | None]:
    """Return rate limits as fields of the response model `LimitValues`; `UNLIMITED` or more is `None`."""
    return {name: _finite(limit) for name, limit in asdict(limits).items()}


def _finite(limit: int | None) -> int | None:
    return None if limit is None or limit >= UNLIMITED else limit


def _filter(organisation: str, days: int, user: str | None) -> UsageFilter:
    until = (int(time.time()) // DAY_SECONDS + 1) * DAY_SECONDS
    only = {} if user is None else {Dimension.USER: [user]}
    return UsageFilter(organisation, until - days * DAY_SECONDS, until, only)
