"""Authorises callers of the organisation API: an admin API key with the route's scope, of a current administrator.

Each route declares this FastAPI dependency before its body. An admin key that the operator made has no owner; the owner
of any other must now be an administrator or owner of the organisation.
"""

from __future__ import annotations

from collections.abc import Callable, Coroutine, Mapping
from dataclasses import dataclass
from typing import Annotated, Any, TypeVar

from fastapi import Depends, Request, Security

from auth_billing import audit_log
from auth_billing.access.principal import Principal
from auth_billing.access.roles import Actor
from auth_billing.access.scopes import Scope
from auth_billing.administration import Administration
from auth_billing.audit_log import Detail, Event
from gateway.http.authentication import ApiKeySecurity
from gateway.http.dependencies import body_of
from gateway.http.gateway import gateway_of
from gateway.openai.base import RequestBody

Body = TypeVar("Body", bound=RequestBody)


@dataclass(frozen=True)
class Administrator:
    """An authorised caller of the organisation API, with the services that the routes use."""

    actor: Actor
    administration: Administration
    principal: Principal
    address: str

    @property
    def organisation(self) -> str:
        """Id of the caller's organisation, the only one that the caller can administer."""
        return self.actor.organisation

    @property
    def scopes(self) -> frozenset[Scope]:
        """Scopes of the caller's API key, which limit the admin keys that the caller may create."""
        return self.principal.scopes

    async def record(
        self, event: Event, target: str, *, project: str = "", details: Mapping[str, Detail] | None = None
    ) -> None:
        """Write an audit log entry: the caller has performed `event` on `target` (an id).

        Raises:
            StoreUnavailable: The entry may be missing, although the action was performed.
        """
        actor = await self.audit_actor()
        await self.administration.audit_log.record(
            self.organisation, event, target, actor, project=project, details=details
        )

    async def audit_actor(self) -> audit_log.AuditActor:
        """Return the caller as the actor in audit log entries."""
        user = await self.administration.members.users.find(self.actor.user) if self.actor.user else None
        email = "" if user is None else user.email  # also of an administrator who has just left
        return audit_log.AuditActor(self.principal.key_id, self.actor.user, email, self.address)


def _administrator(guard: ApiKeySecurity) -> Callable[..., Coroutine[Any, Any, Administrator]]:
    async def authorise(request: Request, caller: Principal = Security(guard)) -> Administrator:  # noqa: B008
        administration = gateway_of(request).administration
        address = request.client.host if request.client is not None else ""
        return Administrator(await administration.actor(caller), administration, caller, address)

    return authorise


_read_guard, _write_guard = ApiKeySecurity(Scope.ORGANIZATION_READ), ApiKeySecurity(Scope.ORGANIZATION_ADMIN)

Reader = Annotated[Administrator, Depends(_administrator(_read_guard))]
"""A caller that may read the organisation."""
Writer = Annotated[Administrator, Depends(_administrator(_write_guard))]
"""A caller that may change the organisation."""


def admin_body(kind: type[Body]) -> Callable[..., Coroutine[Any, Any, Body]]:
    """Create a FastAPI dependency that parses the body as `kind`. Declare it after `Writer`, which authorises first."""
    return body_of(kind, _write_guard)
