"""Logic of the commands `headrace keys ...`: creates, lists, revokes and rotates API keys in the store, for operators.

No broker is used: gateways notice a revoked key within seconds (`auth_billing/keys/key_cache.py`).
"""

from __future__ import annotations

from dataclasses import dataclass

from auth_billing.access.roles import Actor, Role
from auth_billing.audit_log import AuditLog, Event
from auth_billing.errors import NoSuchRecord
from auth_billing.keys.key_issuance import IssuedKey, KeySpec
from auth_billing.keys.key_management import ADMIN_KEYS
from auth_billing.keys.key_records import ApiKeyRecord
from auth_billing.people.projects import Projects
from auth_billing.store.api_keys import MongoApiKeyStore
from auth_billing.store.audit_log import MongoAuditLogStore
from auth_billing.store.organisations import MongoOrganisationStore
from gateway.openai.organization.keys import format_key_id, parse_key_id
from infra.accounts.account_services import AccountServices


@dataclass(frozen=True)
class KeyCommands:
    """Creates, lists, revokes and rotates API keys. Every method raises `StoreUnavailable` if the store fails."""

    access: AccountServices

    async def create(self, organisation: str, project: str | None, spec: KeySpec) -> IssuedKey:
        """Create an API key of an organisation that belongs to no user or service account.

        Return it with its secret text.

        Args:
            organisation: its id.
            project: its id; `ADMIN_KEYS` for an admin key of the organisation; `None` for the oldest project.
            spec: name, scopes, models and expiry.

        Raises:
            NoSuchRecord: there is no such organisation or project.
            UnacceptableValue: a property in `spec` is invalid.
        """
        chosen = (await self._projects().default(organisation)).id if project is None else project
        await self._projects().organisation(organisation)
        issued = await self.access.keys().create(_operator(organisation), chosen, spec)
        await self._record(Event.API_KEY_CREATED, issued.record)
        return issued

    async def all(self, organisation: str) -> list[ApiKeyRecord]:
        """Return the records of an organisation's unrevoked API keys: its admin keys, and those of its projects.

        Raises:
            NoSuchRecord: there is no such organisation.
        """
        await self._projects().organisation(organisation)
        owners = [ADMIN_KEYS, *(project.id for project in await self._projects().all(organisation))]
        lists = [await self.access.keys().all(_operator(organisation), owner) for owner in owners]
        return [key for keys in lists for key in keys]

    async def revoke(self, key_id: str) -> ApiKeyRecord:
        """Revoke the API key with this id and return its record; gateways refuse the key within seconds.

        Raises:
            NoSuchRecord: there is no key with this id.
        """
        key = await self._find(key_id)
        ended = await self.access.keys().revoke(_operator(key.organisation), key.project, key.key_id)
        await self._record(Event.API_KEY_DELETED, ended)
        return ended

    async def rotate(self, key_id: str, overlap: float) -> IssuedKey:
        """Create an API key with the properties of an old one, and return it.

        The old key expires after `overlap` seconds.

        Raises:
            NoSuchRecord: there is no key with this id, or it has expired.
            NotPermitted: the key belongs to a user.
            UnacceptableValue: `overlap` is negative or more than 30 days.
        """
        key = await self._find(key_id)
        keys, operator = self.access.keys(), _operator(key.organisation)
        issued = await keys.rotate(operator, key.project, key.key_id, overlap=overlap)
        await self._record(Event.API_KEY_ROTATED, key, replaced_by=format_key_id(issued.key.key_id))
        return issued

    async def _find(self, key_id: str) -> ApiKeyRecord:
        key = await MongoApiKeyStore(self.access.connection).find(parse_key_id(key_id))
        if key is None:
            raise NoSuchRecord(f"there is no key {key_id}")
        return key

    async def _record(self, event: Event, key: ApiKeyRecord, **details: str) -> None:
        audit_log = AuditLog(MongoAuditLogStore(self.access.connection))
        shown, about = format_key_id(key.key_id), {"name": key.name, **details}
        await audit_log.record(key.organisation, event, shown, project=key.project, details=about)

    def _projects(self) -> Projects:
        return Projects(MongoOrganisationStore(self.access.connection))


def _operator(organisation: str) -> Actor:
    return Actor(organisation, "", Role.OWNER)
