"""The append-only audit log: stores who did what (administrators' actions, sign-ins), when, from which address.

Callers (API routes, the chat's API, the command line) record an entry after the action has succeeded. Its `details`
must not contain a secret, a password or a key's text.
"""

from __future__ import annotations

import hashlib
import secrets
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Protocol

MAX_TEXT = 512
"""Characters of a detail; longer ones are truncated."""
MAX_ITEMS = 128
"""Items of a list in the details; longer lists are truncated."""

Detail = str | int | bool | None | Sequence[str]


class Event(StrEnum):
    """Type of an audited action; OpenAI's names where it has one."""

    ORGANIZATION_CREATED = "organization.created"
    PROJECT_CREATED = "project.created"
    PROJECT_UPDATED = "project.updated"
    PROJECT_ARCHIVED = "project.archived"
    API_KEY_CREATED = "api_key.created"
    API_KEY_ROTATED = "api_key.rotated"
    API_KEY_DELETED = "api_key.deleted"
    SERVICE_ACCOUNT_CREATED = "service_account.created"
    SERVICE_ACCOUNT_UPDATED = "service_account.updated"
    SERVICE_ACCOUNT_DELETED = "service_account.deleted"
    RATE_LIMIT_UPDATED = "rate_limit.updated"
    RATE_LIMIT_DELETED = "rate_limit.deleted"
    MODEL_PERMISSIONS_UPDATED = "model_permissions.updated"
    MODEL_PERMISSIONS_DELETED = "model_permissions.deleted"
    MODERATION_UPDATED = "moderation.updated"
    MODERATION_DELETED = "moderation.deleted"
    BUDGET_UPDATED = "budget.updated"
    BUDGET_DELETED = "budget.deleted"
    ACCOUNT_CLOSED = "account.closed"
    ACCOUNT_REOPENED = "account.reopened"
    CREDIT_GRANTED = "credit.granted"
    CREDIT_REFUNDED = "credit.refunded"
    CREDIT_WITHDRAWN = "credit.withdrawn"
    PRICES_LOADED = "prices.loaded"
    PRICES_UPDATED = "prices.updated"
    INVITE_SENT = "invite.sent"
    INVITE_ACCEPTED = "invite.accepted"
    INVITE_DELETED = "invite.deleted"
    USER_ADDED = "user.added"
    USER_UPDATED = "user.updated"
    USER_DELETED = "user.deleted"
    PASSWORD_CHANGED = "password.changed"  # noqa: S105 - the name of an event
    PASSWORD_RESET_CREATED = "password_reset.created"  # noqa: S105 - the name of an event
    PASSWORD_RESET = "password.reset"  # noqa: S105 - the name of an event
    SECOND_FACTOR_ENABLED = "second_factor.enabled"
    SECOND_FACTOR_DISABLED = "second_factor.disabled"
    LOGIN_SUCCEEDED = "login.succeeded"
    LOGIN_FAILED = "login.failed"
    LOGOUT_SUCCEEDED = "logout.succeeded"
    IDENTITY_CONNECTED = "identity.connected"
    IDENTITY_DISCONNECTED = "identity.disconnected"
    VECTOR_STORE_SHARED = "vector_store.shared"
    VECTOR_STORE_UNSHARED = "vector_store.unshared"
    VECTOR_STORE_SEARCHED = "vector_store.searched"
    VECTOR_STORE_DELETED = "vector_store.deleted"
    DOCUMENT_UPLOADED = "document.uploaded"
    DOCUMENT_READ = "document.read"
    DOCUMENT_DOWNLOADED = "document.downloaded"
    DOCUMENT_DELETED = "document.deleted"
    DOCUMENT_AUDIT_UPDATED = "document_audit.updated"
    USAGE_EXPORTED = "usage.exported"


@dataclass(frozen=True)
class AuditActor:
    """Who acted: an API key, a user, both (a user's key), or neither (the operator at the command line)."""

    key_id: str = ""
    user: str = ""
    email: str = ""
    address: str = ""
    """The client's network address; empty for the command line."""


OPERATOR = AuditActor()


@dataclass(frozen=True)
class Action:
    """An action on the object with the id `target`, of which an entry is to be written."""

    event: Event
    target: str
    project: str = ""
    details: Mapping[str, Detail] = field(default_factory=dict)


@dataclass(frozen=True)
class AuditEntry:
    """One audited action. `target`: id of the object that was changed; `at`: Unix seconds."""

    id: str
    organisation: str
    event: Event
    target: str
    actor: AuditActor
    at: float
    project: str = ""
    details: Mapping[str, Detail] = field(default_factory=dict)


@dataclass(frozen=True)
class AuditQuery:
    """Filter of one organisation's entries. Empty lists and `None` match all.

    `after` and `before` are entry ids, in the order of the result (newest first); `since` <= `at` < `until`.
    """

    organisation: str
    limit: int
    projects: Sequence[str] = ()
    events: Sequence[str] = ()
    actors: Sequence[str] = ()
    """Ids of users or API keys."""
    emails: Sequence[str] = ()
    targets: Sequence[str] = ()
    since: float | None = None
    until: float | None = None
    after: str | None = None
    before: str | None = None


class AuditLogStore(Protocol):
    """Store of audit log entries. Each method raises `StoreUnavailable` when the store does not answer in time."""

    async def add(self, entries: Sequence[AuditEntry]) -> None:
        """Store audit log entries, at least one, durably in one write; those whose id is stored are left out."""
        ...

    async def find(self, query: AuditQuery) -> list[AuditEntry]:
        """Return up to `query.limit` audit log entries that match `query`, newest first.

        With `query.before`, an entry's id, those directly before that entry.
        """
        ...


class AuditLog:
    """Writes and reads the log of administrative actions, per organisation."""

    def __init__(self, store: AuditLogStore, *, clock: Callable[[], float] = time.time) -> None:
        self._store = store
        self._clock = clock

    async def record(
        self,
        organisation: str,
        event: Event,
        target: str,
        actor: AuditActor = OPERATOR,
        *,
        project: str = "",
        details: Mapping[str, Detail] | None = None,
    ) -> AuditEntry:
        """Append a new entry about an action that has succeeded to an organisation's audit log, and return the entry.

        `target`: id of the changed object.

        Raises:
            StoreUnavailable: the action is done, but its entry may be missing; report that to the caller.
        """
        action = Action(event, target, project, details or {})
        (entry,) = await self.record_all(organisation, [action], actor)
        return entry

    async def record_all(
        self, organisation: str, actions: Sequence[Action], actor: AuditActor = OPERATOR
    ) -> list[AuditEntry]:
        """Append new entries about actions, at least one, of one actor in one write, and return the entries.

        Raises:
            StoreUnavailable: some entries may be missing.
        """
        now = self._clock()
        entries = [
            AuditEntry(
                id=entry_id(now),
                organisation=organisation,
                event=each.event,
                target=each.target[:MAX_TEXT],
                actor=actor,
                at=now,
                project=each.project,
                details=_bounded_details(each.details),
            )
            for each in actions
        ]
        await self._store.add(entries)
        return entries

    async def record_once(
        self,
        organisation: str,
        event: Event,
        target: str,
        at: float,
        actor: AuditActor = OPERATOR,
        *,
        details: Mapping[str, Detail] | None = None,
    ) -> None:
        """Append the entry of a repeatable action to an organisation's audit log, unless the log has it.

        The log has it if an entry has this event, target and time `at` (Unix seconds): a repetition adds only the entry
        that an interrupted call did not write.

        Raises:
            StoreUnavailable: the action is done, but its entry may be missing; repeat the call.
        """
        digest = hashlib.sha256("\n".join([organisation, event, target]).encode()).hexdigest()
        id, bounded = f"{_prefix(at)}{digest[:16]}", _bounded_details(details or {})
        await self._store.add([AuditEntry(id, organisation, event, target[:MAX_TEXT], actor, at, details=bounded)])

    async def find(self, query: AuditQuery) -> list[AuditEntry]:
        """Return the audit log entries that match `query`, newest first, at most `query.limit`."""
        return await self._store.find(query)


def entry_id(at: float) -> str:
    """Return a new audit log entry id that sorts by the time `at` (Unix seconds): milliseconds, then random bits."""
    return f"{_prefix(at)}{secrets.token_hex(8)}"


def _prefix(at: float) -> str:
    return f"audit_log-{int(at * 1000):012x}"


def _bounded_details(details: Mapping[str, Detail]) -> dict[str, Detail]:
    return {name: _bounded(value) for name, value in details.items()}


def _bounded(value: Detail) -> Detail:
    if isinstance(value, str):
        return value[:MAX_TEXT]
    if isinstance(value, Sequence):
        return [each[:MAX_TEXT] for each in value[:MAX_ITEMS]]
    return value
