"""Defines rate limits and their subjects, and parses the notation in which operators write limits."""

from __future__ import annotations

import re
from dataclasses import asdict, dataclass, fields, replace
from enum import StrEnum
from functools import cached_property

UNLIMITED = 1_000_000_000
"""A limit of this or more means no limit. It is also the number that clients get where no limit applies."""

_MINUTE, _DAY = 60.0, 86_400.0
_TERM = re.compile(r"([1-9][0-9]{0,9}) (requests/minute|tokens/minute|requests/day|concurrent)")


class Dimension(StrEnum):
    """Quantity that is limited over time."""

    REQUESTS_PER_MINUTE = "requests_per_minute"
    TOKENS_PER_MINUTE = "tokens_per_minute"
    REQUESTS_PER_DAY = "requests_per_day"

    @property
    def period(self) -> float:
        """Length of the limit's period in seconds: 60, or 86400 of a limit per day."""
        return _DAY if self is Dimension.REQUESTS_PER_DAY else _MINUTE

    @property
    def counts_tokens(self) -> bool:
        """Whether the dimension limits tokens; otherwise it limits requests."""
        return self is Dimension.TOKENS_PER_MINUTE


@dataclass(frozen=True)
class BucketRate:
    """A capacity in units per period in seconds."""

    capacity: int
    period: float

    @property
    def unit(self) -> float:
        """Seconds in which one unit (a request or token) of the bucket refills."""
        return self.period / self.capacity


@dataclass(frozen=True)
class Limits:
    """Limits of one subject; `None`: not configured here.

    Raises:
        ValueError: a limit is less than 1. (To deny access, use scopes.)
    """

    requests_per_minute: int | None = None
    tokens_per_minute: int | None = None
    requests_per_day: int | None = None
    concurrent_requests: int | None = None

    def __post_init__(self) -> None:
        for field in fields(self):
            value = getattr(self, field.name)
            if value is not None and value < 1:
                raise ValueError(f"{field.name} must be at least 1")

    @cached_property
    def rates(self) -> dict[Dimension, BucketRate]:
        """The per-minute and per-day limits of the subject as bucket rates, by dimension, without unlimited ones."""
        said = {dimension: getattr(self, dimension.value) for dimension in Dimension}
        return {d: BucketRate(limit, d.period) for d, limit in said.items() if limit is not None and limit < UNLIMITED}

    @property
    def concurrent(self) -> int | None:
        """Largest number of concurrent requests of the subject; `None`: unlimited."""
        limit = self.concurrent_requests
        return None if limit is None or limit >= UNLIMITED else limit

    def overridden_by(self, other: Limits) -> Limits:
        """Return a copy of these rate limits with each limit that `other` sets, lower or higher, instead of its own."""
        return replace(self, **{name: limit for name, limit in asdict(other).items() if limit is not None})

    def lowered_by(self, other: Limits) -> Limits:
        """Return a copy of these rate limits with each limit of `other` that is lower, or set only there."""
        lower = {name: min(limit, getattr(self, name) or limit) for name, limit in asdict(other).items() if limit}
        return replace(self, **lower)

    def __str__(self) -> str:
        """The notation that `parse_limits` reads."""
        given = {name: limit for name, limit in asdict(self).items() if limit is not None}
        units = {name: "concurrent" if name == "concurrent_requests" else name.replace("_per_", "/") for name in given}
        return ", ".join(f"{limit} {units[name]}" for name, limit in given.items())


def parse_limits(text: str) -> Limits:
    """Parse rate limits, such as `600 requests/minute, 90000 tokens/minute, 64 concurrent`; an empty text sets none.

    Raises:
        ValueError: the text is malformed.
    """
    found: dict[str, int] = {}
    for term in filter(None, (term.strip() for term in text.split(","))):
        match = _TERM.fullmatch(term)
        if match is None:
            raise ValueError(
                f"'{term}' is no limit: write '600 requests/minute', '90000 tokens/minute', "
                "'10000 requests/day' or '64 concurrent', with commas between them"
            )
        name = "concurrent_requests" if match[2] == "concurrent" else match[2].replace("/", "_per_")
        if name in found:
            raise ValueError(f"'{match[2]}' is limited twice")
        found[name] = int(match[1])
    return Limits(**found)


class SubjectKind(StrEnum):
    """Kind of subject that a limit applies to."""

    KEY = "key"
    """An API key, or a signed-in user's chats."""
    PERSON = "person"
    """A user or service account of an organisation: all API keys and chats together."""
    PROJECT = "project"
    MODEL = "model"
    """A model within one project."""
    ORGANISATION = "organisation"
    """All projects of an organisation."""
    ORGANISATION_MODEL = "organisation_model"
    """A model within all projects of an organisation."""


@dataclass(frozen=True)
class Subject:
    """Subject of rate limits: an API key, a person, a project, an organisation, or a model in one of the latter two.

    `id` is unique among all subjects.
    """

    kind: SubjectKind
    id: str
    display_name: str
    """Name for error messages to the caller."""

    @property
    def operator_id(self) -> str:
        """Id in the store of the limits that the operator set for the subject; administrators can only lower these."""
        return f"operator:{self.id}"


def key_subject(key_id: str, user: str) -> Subject:
    """Return the rate-limit subject of an API key, or of a signed-in user's chats (`key_id` is empty)."""
    if key_id:
        return Subject(SubjectKind.KEY, f"key:{key_id}", "this API key")
    return Subject(SubjectKind.KEY, f"user:{user}", "your chats")


def person_subject(organisation: str, user: str) -> Subject:
    """Return the subject that stands for a user or service account in rate limits, over all API keys and chats.

    The limits that one organisation sets do not apply to the same user in another.
    """
    name = "this user's API keys and chats together"
    return Subject(SubjectKind.PERSON, f"person:{organisation}:{user}", name)


def organisation_subject(organisation: str) -> Subject:
    """Return the subject that stands for an organisation in rate limits, over all its projects."""
    return Subject(SubjectKind.ORGANISATION, f"organisation:{organisation}", "this organisation")


def organisation_model_subject(organisation: str, model: str) -> Subject:
    """Return the subject that stands for one model within an organisation in rate limits, over all its projects."""
    kind = SubjectKind.ORGANISATION_MODEL
    return Subject(kind, f"organisation:{organisation}:{model}", f"{model} in this organisation")


def project_subject(project: str) -> Subject:
    """Return the subject that stands for a project in rate limits, over all its models."""
    return Subject(SubjectKind.PROJECT, f"project:{project}", f"project {project}")


def model_subject(project: str, model: str) -> Subject:
    """Return the subject that stands for one model within a project in rate limits."""
    return Subject(SubjectKind.MODEL, f"project:{project}:{model}", f"{model} in project {project}")
