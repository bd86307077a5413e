"""Request and response models of administration: projects, keys, budgets, credit, prices, workers, audit log."""

from __future__ import annotations

from typing import Annotated, Literal

from fastapi import Depends
from pydantic import Field, StringConstraints

from auth_billing.audit_log import Event
from auth_billing.money.amounts import MAX_AMOUNT
from chat_ui.http.request_bodies import Body, body_of
from chat_ui.http.schemas.base import Schema
from chat_ui.http.schemas.presets import TokenPrice

MAX_OVERLAP = 30 * 86_400
"""Seconds that a rotated key may stay valid."""

Name = Annotated[str, StringConstraints(min_length=1, max_length=100)]


class Project(Schema):
    """A project of the organisation."""

    id: str
    name: str
    created: float
    archived: float | None
    """When the project was archived; `null`: it is active."""


class ProjectList(Schema):
    """All projects, oldest first, archived ones too. Chats are billed to the oldest active one."""

    projects: list[Project]


class ProjectBody(Body):
    """Name of a project to create or rename."""

    name: Name


class Key(Schema):
    """An API key, without its text."""

    id: str = Field(validation_alias="key_id")
    name: str
    project: str
    last4: str
    created: float
    expires: float | None
    last_used: float | None
    user: str
    """Id of the key's owner; empty, or the id of a service account, if the key belongs to no person."""
    email: str
    """The owner's e-mail address."""
    models: list[str] | None
    """Models that the key may use; `null`: all."""


class KeyList(Schema):
    """The keys of all active projects, newest first."""

    keys: list[Key]


class NewKeyBody(Body):
    """A new key, which will belong to the caller."""

    project: str
    name: Name
    models: Annotated[list[Annotated[str, StringConstraints(min_length=1, max_length=200)]], Field(max_length=100)] | (
        None
    ) = None
    expires_in_seconds: Annotated[int, Field(ge=60, le=10 * 366 * 86_400)] | None = None
    budget_nano: Annotated[int, Field(ge=0, le=MAX_AMOUNT)] | None = None


class RotateBody(Body):
    """A rotation: `overlap_seconds` is for how long the old key stays valid."""

    overlap_seconds: Annotated[int, Field(ge=0, le=MAX_OVERLAP)] = 86_400


class NewKey(Schema):
    """A new key with its text, which is not shown again."""

    key: Key
    text: str


class BudgetRow(Schema):
    """A monthly budget and its usage. `name`: `organisation`, `project:ID` or `key:ID`."""

    name: str
    label: str
    """Display name: that of the project or key."""
    limit_nano: int | None = Field(validation_alias="limit")
    """`null`: no budget is set."""
    spent_nano: int = Field(validation_alias="spent")
    held_nano: int = Field(validation_alias="held")


class BudgetList(Schema):
    """All budgets of the organisation, and the usage of projects and keys without a budget."""

    budgets: list[BudgetRow]


class BudgetBody(Body):
    """A monthly budget; `null` removes it."""

    name: Annotated[str, StringConstraints(min_length=1, max_length=160)]
    limit_nano: Annotated[int, Field(ge=0, le=MAX_AMOUNT)] | None


class CreditRow(Schema):
    """A ledger entry of credit that was added, refunded or withdrawn."""

    kind: Literal["topup", "promo", "refund", "withdrawal"]
    reference: str
    amount_nano: int = Field(validation_alias="amount")
    at: float
    job: str | None
    reason: str
    """Why the operator gave or took the credit; may be empty."""


class Credit(Schema):
    """The organisation's credit balance and its newest ledger entries."""

    available_nano: int
    held_nano: int
    spent_nano: int
    entries: list[CreditRow]
    """Newest first."""


class ModelPrice(TokenPrice):
    """Prices in nano-USD per token and unit."""

    units_nano: dict[str, int] = Field(validation_alias="units")
    """Prices of an image by its size, or of a tool's `call`."""


class PriceRow(Schema):
    """The price of a model. `model` is `null` in the default for models without a price."""

    model: str | None
    service_class: str
    price: ModelPrice


class PriceList(Schema):
    """The prices in force."""

    version: int
    in_file: bool
    """Whether the operator's price file has them, so that they can't be changed here."""
    prices: list[PriceRow]


class Worker(Schema):
    """A live worker."""

    id: str = Field(validation_alias="worker")
    model: str
    state: str
    device: str
    running: int
    waiting: int
    capacity: int = Field(validation_alias="max_num_seqs")
    """Largest number of sequences that run at once."""
    kv_cache_usage: float
    """From 0 to 1."""
    tokens_per_second: float
    started: float


class ModelLoad(Schema):
    """A model's load over all of its workers."""

    id: str = Field(validation_alias="name")
    task: str
    workers: int
    running: int
    waiting: int
    """Sequences that wait inside workers; jobs in queues are `queued`."""
    capacity: int
    queued: int
    """Jobs in the model's queues that no worker has started."""
    alive: bool


class WorkerList(Schema):
    """Load of all models and state of all live workers."""

    models: list[ModelLoad]
    workers: list[Worker]
    console: str | None
    """URL of the RabbitMQ console; `null` if none is configured."""


class AuditActor(Schema):
    """The actor of an audit log entry; all fields are empty for the operator at the command line."""

    user: str
    email: str
    key: str = Field(validation_alias="key_id")
    address: str


class AuditRow(Schema):
    """An entry of the audit log."""

    id: str
    event: Event
    target: str
    project: str
    actor: AuditActor
    at: float
    details: dict[str, str | int | bool | list[str] | None]


class AuditPage(Schema):
    """A page of the audit log, newest first."""

    entries: list[AuditRow]
    next: str | None
    """The `cursor` of the next page."""


class DocumentAudit(Schema):
    """Whether accesses to the organisation's documents are recorded in its audit log."""

    enabled: bool


class DocumentAuditBody(Body):
    """Whether to record accesses to the organisation's documents in its audit log."""

    enabled: bool


# Dependencies of routes: each reads and validates a request body.
ProjectJson = Annotated[ProjectBody, Depends(body_of(ProjectBody))]
NewKeyJson = Annotated[NewKeyBody, Depends(body_of(NewKeyBody))]
RotateJson = Annotated[RotateBody, Depends(body_of(RotateBody))]
BudgetJson = Annotated[BudgetBody, Depends(body_of(BudgetBody))]
DocumentAuditJson = Annotated[DocumentAuditBody, Depends(body_of(DocumentAuditBody))]
