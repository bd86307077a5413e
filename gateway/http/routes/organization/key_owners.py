"""Converts key records to the organisation API's models, with each key's owner: user, service account or operator."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from auth_billing.keys.key_records import ApiKeyRecord
from auth_billing.keys.service_accounts import ServiceAccount
from gateway.http.routes.organization.access import Administrator
from gateway.openai.organization.keys import (
    AdminApiKey,
    AdminKeyOwner,
    KeyOwner,
    ProjectApiKey,
    ProjectKeyOwner,
    format_key_id,
)

OPERATOR = "operator"
"""Owner's name of a key that was created at the command line."""


@dataclass(frozen=True)
class Owners:
    """Possible owners of API keys, by id: an organisation's members (`people`), a project's service `accounts`."""

    people: dict[str, KeyOwner]
    accounts: dict[str, KeyOwner]

    def project_key(self, record: ApiKeyRecord) -> ProjectApiKey:
        """Convert the record of a project's key to its response model, with its owner and without its secret text."""
        kind, owner = self._owner(record)
        return ProjectApiKey(
            id=format_key_id(record.key_id),
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
        """Convert the record of an admin key to its response model with its owner.

        `value`: secret text of a new key.
        """
        kind, owner = self._owner(record)
        return AdminApiKey(
            id=format_key_id(record.key_id),
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
    """Load the possible owners of keys from the store: of the organisation's admin keys, or of those of `project`.

    Raises:
        NoSuchRecord: The project does not exist.
    """
    accounts: list[ServiceAccount] = []
    if project:
        await admin.administration.projects.find(admin.organisation, project)
        accounts = await admin.administration.service_accounts.all(admin.organisation, project)
    members = await admin.administration.members.all(admin.organisation)
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
    """Return the redacted text of a key (its id and last four characters), by which its owner can recognise it."""
    return f"hr_live_{record.key_id}_...{record.last4}"


def _seconds(at: float | None) -> int | None:
    return None if at is None else int(at)
