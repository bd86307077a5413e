"""What a job may cost at most, said before it runs. Knows no store and no HTTP.

A hold is taken for the worst case
(docs/design/money.md#settlement), so that no job can cost more than what was set aside for it.
"""

from __future__ import annotations

import re
import time
from collections.abc import Iterator
from dataclasses import dataclass

from router.messages import ServiceClass, Usage

MOST_HELD = 10**18
"""Nano-USD that one request can hold: sums of a few stay within the store's 64 bits."""

ORGANISATION_BUDGET = "organisation"

_NAME = re.compile(r"[A-Za-z0-9_\-]{1,128}")


@dataclass(frozen=True)
class Work:
    """One job to be queued, and what it may use at most.

    `job` is the job's id, `model` the name that the price list knows, `gateway` who answers for it (and renews its
    lease, `Billing.renew_lease`), `deadline` Unix seconds. `most` is the usage that the hold is taken for.
    """

    job: str
    model: str
    service_class: ServiceClass
    gateway: str
    deadline: float
    most: Usage


def budgets_of(project: str, key: str) -> Iterator[str]:
    """The budgets that a job counts against, by name; a caller may have no project or no key ("")."""
    yield ORGANISATION_BUDGET
    if project:
        yield project_budget(project)
    if key:
        yield key_budget(key)


def project_budget(project: str) -> str:
    """The name of a project's budget."""
    return f"project:{project}"


def key_budget(key: str) -> str:
    """The name of an API key's budget, by the key's id."""
    return f"key:{key}"


def month_of(at: float) -> str:
    """The month that a budget counts, in UTC: `2026-11`."""
    return time.strftime("%Y-%m", time.gmtime(at))


def check_name(name: str) -> str:
    """Accept an id that can be part of a field's path in the store: letters, digits, `_` and `-`.

    Raises:
        ValueError: anything else.
    """
    if not _NAME.fullmatch(name):
        raise ValueError(f"id {name!r}: only letters, digits, _ and - are allowed, at most 128")
    return name
