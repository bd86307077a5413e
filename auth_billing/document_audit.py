"""Records accesses to documents in the audit log of organisations that want it, before each access.

An access whose entry can't be written is refused. An organisation that does not want entries costs no write.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence

from auth_billing.access.principal import Principal
from auth_billing.access.roles import Actor, Role
from auth_billing.audit_log import Action, AuditActor, AuditLog
from auth_billing.confirmed_cache import ConfirmedCache
from auth_billing.people.organisation_records import OrganisationStore
from auth_billing.people.people_records import UserStore
from auth_billing.ttl_cache import TtlCache

CACHED_ORGANISATIONS = 10_000
CACHED_ADDRESSES = 10_000
ADDRESS_TTL = 300.0
"""Seconds for which a user's e-mail address is cached."""


class DocumentAudit:
    """Records accesses to documents, and reads and changes which organisations have them recorded."""

    def __init__(
        self,
        log: AuditLog,
        accounts: OrganisationStore,
        users: UserStore,
        *,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._log = log
        self._accounts = accounts
        self._users = users
        self._cache: ConfirmedCache[str, bool] = ConfirmedCache(CACHED_ORGANISATIONS, clock)
        self._addresses: TtlCache[str, str] = TtlCache(ADDRESS_TTL, CACHED_ADDRESSES, clock)

    async def is_on(self, organisation: str) -> bool:
        """Return whether accesses to the organisation's documents are recorded, from the store."""
        found = await self._accounts.find_organisation(organisation)
        return found is not None and found.audits_documents

    async def set(self, actor: Actor, *, on: bool) -> None:
        """Set whether accesses to the documents of the actor's organisation are recorded, within five seconds.

        Raises:
            NotPermitted: the actor is no administrator.
        """
        actor.require(Role.ADMIN)
        try:
            await self._accounts.set_document_audit(actor.organisation, on=on)
        finally:
            self._cache.forget(actor.organisation)

    async def record(self, caller: Principal, accesses: Sequence[Action], address: str = "") -> None:
        """Write the audit log entries of accesses by `caller`, in one write; call it before each access takes effect.

        Nothing is written if the organisation does not want it. `address`: the client's network address; empty: the
        access has no request of its own.

        Raises:
            StoreUnavailable: the entries can't be written, or it is unknown whether they are wanted; refuse the access.
        """
        organisation = caller.tenant
        if not accesses or not await self._cache.read(organisation, lambda: self.is_on(organisation)):
            return
        actor = AuditActor(caller.key_id, caller.user, await self._email(caller.user), address)
        await self._log.record_all(organisation, accesses, actor)

    async def _email(self, user: str) -> str:
        """Return the e-mail address of a user; empty for a service account."""
        email = self._addresses.get(user) if user else ""
        if email is None:
            found = await self._users.find(user)
            email = "" if found is None else found.email
            self._addresses.put(user, email)
        return email
