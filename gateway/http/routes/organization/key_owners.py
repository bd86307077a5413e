"""Whose keys are: people, service accounts, or nobody (keys that the operator has made)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from auth_billing.keys.service_accounts import ServiceAccount
from auth_billing.records import ApiKeyRecord
from gateway.http.routes.organization.access import Administrator
from gateway.openai.organization.keys import (
    AdminApiKey,
    AdminKeyOwner,
    KeyOwner,
    ProjectApiKey,
    ProjectKeyOwner,
    shown_key,
)

OPERATOR = "operator"


@dataclass(frozen=True)
class Owners:
    """Those of an organisation, and of a project, by id."""

    people: dict[str, KeyOwner]
    accounts: dict[str, KeyOwner]

    def project_key(self, record: ApiKeyRecord) -> ProjectApiKey:
        """A project's key as clients see it."""
        kind, owner = self._owner(record)
        return ProjectApiKey(
            id=shown_key(record.key_id),
            name=record.name,
            redacted_value=redacted(record),
            created_at=int(record.created),
            last_used_at=_seconds(record.last_used),
            expires_at=_seconds(record.expires),
            scopes=sorted(scope.value for scope in record.rights),
            models=None if record.models is None else sorted(record.models),
            owner=ProjectKeyOwner(type="user", user=owner)
            if kind == "user"
            else ProjectKeyOwner(type="service_account", service_account=owner),
        )

    def admin_key(self, record: ApiKeyRecord, value: str | None = None) -> AdminApiKey:
        """An organisation's key as clients see it; `value` is its text."""
        kind, owner = self._owner(record)
        return AdminApiKey(
            id=shown_key(record.key_id),
            name=record.name,
            redacted_value=redacted(record),
            value=value,
            created_at=int(record.created),
            last_used_at=_seconds(record.last_used),
            expires_at=_seconds(record.expires),
            owner=AdminKeyOwner(
                type=kind,
                object="organization.user" if kind == "user" else "organization.service_account",
                **owner.model_dump(exclude_none=True),
            ),
        )

    def _owner(self, record: ApiKeyRecord) -> tuple[Literal["user", "service_account"], KeyOwner]:
        if record.user in self.people:
            return "user", self.people[record.user]
        made = int(record.created)
        unknown = KeyOwner(id=record.user, name=OPERATOR if not record.user else "", created_at=made, role="member")
        return "service_account", self.accounts.get(record.user, unknown)


async def owners_of(admin: Administrator, project: str = "") -> Owners:
    """Everybody who may own a key of the organisation, or of one of its projects.

    Raises:
        NoSuchRecord: no such project.
    """
    accounts: list[ServiceAccount] = []
    if project:
        await admin.administration.projects.find(admin.organisation, project)
        accounts = await admin.administration.service_accounts.all(admin.organisation, project)
    members = await admin.administration.people.members(admin.organisation)
    return Owners(
        {
            each.user.id: KeyOwner(
                id=each.user.id,
                name=each.user.name,
                email=each.user.email,
                created_at=int(each.user.created),
                role=each.role.value,
            )
            for each in members
        },
        {
            each.id: KeyOwner(id=each.id, name=each.name, created_at=int(each.created), role="member")
            for each in accounts
        },
    )


def redacted(record: ApiKeyRecord) -> str:
    """Enough of a key's text to know it by."""
    return f"hr_live_{record.key_id}_...{record.last4}"


def _seconds(at: float | None) -> int | None:
    return None if at is None else int(at)
