"""Describes the holds that jobs need before they are queued, and names budgets and months that holds count against.

A hold sets credit aside before a job runs. It covers the most that the job can cost, so no job costs more than it
(docs/design/money.md#settlement).
"""

from __future__ import annotations

import re
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from router.messages import ServiceClass, Usage, UsagePart

MAX_HOLD = 10**18
"""The most that one request can hold, in nano-USD: the sum of a few holds stays within the store's 64 bits."""

ORGANISATION_BUDGET = "organisation"

_ID = re.compile(r"[A-Za-z0-9_\-]{1,128}")


@dataclass(frozen=True)
class HoldRequest:
    """A job that needs a hold before it is queued.

    `job` is the job's id, `model` the name in the price list, `gateway` the id of the gateway process that answers for
    the job, `deadline` Unix seconds, `max_usage` the largest usage that the job's answer can have and `max_parts` the
    largest of its steps, by model, which the hold covers, `idempotency` the id of the record of the request's
    idempotency key.
    """

    job: str
    model: str
    service_class: ServiceClass
    gateway: str
    deadline: float
    max_usage: Usage
    idempotency: str = ""
    max_parts: Sequence[UsagePart] = ()


def budget_names(project: str, key: str) -> Iterator[str]:
    """Yield the names of the budgets that a job counts against, by the ids of its project and key; "" for none.

    The first is always `ORGANISATION_BUDGET`. Names are unique within an organisation only.
    """
    yield ORGANISATION_BUDGET
    if project:
        yield project_budget(project)
    if key:
        yield key_budget(key)


def project_budget(project: str) -> str:
    """Return the name of a project's budget within its organisation, from the project's id."""
    return f"project:{project}"


def key_budget(key: str) -> str:
    """Return the name of an API key's budget within its organisation, from the key's id."""
    return f"key:{key}"


def month_of(at: float) -> str:
    """Return the calendar month (UTC) of the Unix time `at` by which budgets are counted, e.g. `2026-11`."""
    return time.strftime("%Y-%m", time.gmtime(at))


def check_id(id: str) -> str:
    """Return `id` unchanged if it may be in a MongoDB field's path: 1 to 128 letters, digits, `_` and `-`.

    Raises:
        ValueError: `id` is anything else.
    """
    if not _ID.fullmatch(id):
        raise ValueError(f"id {id!r}: only letters, digits, _ and - are allowed, at most 128")
    return id
