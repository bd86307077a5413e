"""What administrators see and change: projects, keys, budgets, credit, prices, workers, and what was done."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field, StringConstraints

from auth_billing.audit_log import Event
from chat_ui.bodies import Body
from chat_ui.shapes.base import Shape
from chat_ui.shapes.presets import TokenPrice

MOST_NANO = 10**18
LONGEST_OVERLAP = 30 * 86_400

Name = Annotated[str, StringConstraints(min_length=1, max_length=100)]


class Project(Shape):
    """A part of the organisation."""

    id: str
    name: str
    created: float
    archived: float | None
    """Since when it is out of use."""


class ProjectList(Shape):
    """All projects, oldest first, those out of use too. The oldest that is in use is the one that chats belong to."""

    projects: list[Project]


class ProjectBody(Body):
    """A project's name."""

    name: Name


class Key(Shape):
    """An API key; nobody can see its text again."""

    id: str
    name: str
    project: str
    last4: str
    created: float
    expires: float | None
    last_used: float | None
    user: str
    """Whose it is; empty, or the id of a service account: nobody's."""
    email: str
    """Of that person."""
    models: list[str] | None
    """That it may ask for; `null`: all."""


class KeyList(Shape):
    """The keys of all projects that are in use, newest first."""

    keys: list[Key]


class NewKeyBody(Body):
    """A new key, of the caller's own."""

    project: str
    name: Name
    models: Annotated[list[Annotated[str, StringConstraints(min_length=1, max_length=200)]], Field(max_length=100)] | (
        None
    ) = None
    expires_in_seconds: Annotated[int, Field(ge=60, le=10 * 366 * 86_400)] | None = None
    budget_nano: Annotated[int, Field(ge=0, le=MOST_NANO)] | None = None


class RotateBody(Body):
    """For how long the old key goes on, in seconds."""

    overlap_seconds: Annotated[int, Field(ge=0, le=LONGEST_OVERLAP)] = 86_400


class NewKey(Shape):
    """A key with its text, which is told this once."""

    key: Key
    text: str


class BudgetRow(Shape):
    """What a month's budget is, and what is used of it. `name`: `organisation`, `project:ID` or `key:ID`."""

    name: str
    label: str
    """For people: the project's or the key's name."""
    limit_nano: int | None
    """`null`: there is none, and this much was used."""
    spent_nano: int
    held_nano: int


class BudgetList(Shape):
    """All budgets of the organisation, and what is used where there is none."""

    budgets: list[BudgetRow]


class BudgetBody(Body):
    """A month's budget; `null` takes it away."""

    name: Annotated[str, StringConstraints(min_length=1, max_length=160)]
    limit_nano: Annotated[int, Field(ge=0, le=MOST_NANO)] | None


class CreditRow(Shape):
    """Credit that was paid in, given, or paid back."""

    kind: Literal["topup", "promo", "refund"]
    reference: str
    amount_nano: int
    at: float
    job: str | None


class Credit(Shape):
    """The organisation's credit."""

    available_nano: int
    held_nano: int
    spent_nano: int
    entries: list[CreditRow]
    """The latest, newest first."""


class PriceRow(Shape):
    """What a model costs. `model` is `null` for all that have no price of their own."""

    model: str | None
    service_class: str
    price: TokenPrice


class PriceList(Shape):
    """The prices in force. They are in the operator's price file, and changed there."""

    version: int
    prices: list[PriceRow]


class Worker(Shape):
    """A worker that is alive."""

    id: str
    model: str
    state: str
    device: str
    running: int
    waiting: int
    capacity: int
    """Sequences that run at once."""
    kv_cache_usage: float
    """From 0 to 1."""
    tokens_per_second: float
    started: float


class ModelLoad(Shape):
    """A model, over all of its workers."""

    id: str
    task: str
    workers: int
    running: int
    waiting: int
    """In the workers; those in the queue are `queued`."""
    capacity: int
    queued: int
    """Answers that nobody has begun, in all queues of the model."""
    alive: bool


class WorkerList(Shape):
    """What serves the platform now."""

    models: list[ModelLoad]
    workers: list[Worker]
    console: str | None
    """The RabbitMQ console's address, where the operator has told one."""


class AuditActor(Shape):
    """Who did it; all empty: the operator at the command line."""

    user: str
    email: str
    key: str
    address: str


class AuditRow(Shape):
    """Something that was done."""

    id: str
    event: Event
    target: str
    project: str
    actor: AuditActor
    at: float
    details: dict[str, str | int | bool | list[str] | None]


class AuditPage(Shape):
    """Some of what was done, newest first."""

    entries: list[AuditRow]
    next: str | None
    """The `cursor` of the next page."""
