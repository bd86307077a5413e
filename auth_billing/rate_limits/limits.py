"""What is limited, of whom, and how an operator writes it down. Knows no bucket, no store and no HTTP."""

from __future__ import annotations

import re
from dataclasses import asdict, dataclass, fields, replace
from enum import StrEnum
from functools import cached_property

UNLIMITED = 1_000_000_000
"""A limit of this or more is none. It is also what clients are told of where nothing limits them."""

_MINUTE, _DAY = 60.0, 86_400.0
_TERM = re.compile(r"([1-9][0-9]{0,9}) (requests/minute|tokens/minute|requests/day|concurrent)")


class Dimension(StrEnum):
    """What is counted over time."""

    REQUESTS_PER_MINUTE = "requests_per_minute"
    TOKENS_PER_MINUTE = "tokens_per_minute"
    REQUESTS_PER_DAY = "requests_per_day"

    @property
    def period(self) -> float:
        """Seconds."""
        return _DAY if self is Dimension.REQUESTS_PER_DAY else _MINUTE

    @property
    def counts_tokens(self) -> bool:
        """Tokens; else requests."""
        return self is Dimension.TOKENS_PER_MINUTE


@dataclass(frozen=True)
class Rate:
    """So many units in so many seconds."""

    capacity: int
    period: float

    @property
    def unit(self) -> float:
        """Seconds in which one unit comes back."""
        return self.period / self.capacity


@dataclass(frozen=True)
class Limits:
    """Limits of one subject; `None`: nothing is said of it here.

    Raises:
        ValueError: a limit is less than 1. (What nobody may use is not a matter of rates.)
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
    def rates(self) -> dict[Dimension, Rate]:
        """What is limited over time."""
        said = {dimension: getattr(self, dimension.value) for dimension in Dimension}
        return {d: Rate(limit, d.period) for d, limit in said.items() if limit is not None and limit < UNLIMITED}

    @property
    def concurrent(self) -> int | None:
        """How many may run at once; `None`: any number."""
        limit = self.concurrent_requests
        return None if limit is None or limit >= UNLIMITED else limit

    def changed_by(self, other: Limits) -> Limits:
        """These, but for what `other` says."""
        return replace(self, **{name: limit for name, limit in asdict(other).items() if limit is not None})


def parse_limits(text: str) -> Limits:
    """Limits as an operator writes them: `600 requests/minute, 90000 tokens/minute, 64 concurrent`; empty: none.

    Raises:
        ValueError: it is not that.
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


class Kind(StrEnum):
    """Whom a limit is for."""

    KEY = "key"
    """Whoever asks: an API key, or a person who is signed in."""
    PROJECT = "project"
    MODEL = "model"
    """A model, as far as one project uses it."""


@dataclass(frozen=True)
class Subject:
    """One that has limits. `id` is unique among all subjects."""

    kind: Kind
    id: str
    shown: str
    """As its owner knows it, for messages."""


def key_subject(key_id: str, user: str) -> Subject:
    """Whoever asks."""
    return Subject(Kind.KEY, f"key:{key_id}", "this API key") if key_id else Subject(Kind.KEY, f"user:{user}", "you")


def project_subject(project: str) -> Subject:
    """A project, whatever it asks for."""
    return Subject(Kind.PROJECT, f"project:{project}", f"project {project}")


def model_subject(project: str, model: str) -> Subject:
    """A model within a project."""
    return Subject(Kind.MODEL, f"project:{project}:{model}", f"{model} in project {project}")
