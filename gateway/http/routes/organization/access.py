"""Who may administer: an admin key with the scope, of somebody who is an administrator or owner now.

A dependency of each route, asked before its body is read. What was done is recorded through it.
"""

from __future__ import annotations

from collections.abc import Callable, Coroutine, Mapping
from dataclasses import dataclass
from typing import Annotated, Any, TypeVar

from fastapi import Depends, Request, Security

from auth_billing import audit_log
from auth_billing.administration import Administration
from auth_billing.audit_log import Detail, Event
from auth_billing.keys.scopes import Scope
from auth_billing.people.roles import Actor
from auth_billing.service import Principal
from gateway.http.authenticate import ApiKeySecurity
from gateway.http.dependencies import body_of
from gateway.http.gateway import gateway_of
from gateway.openai.base import RequestBody

Body = TypeVar("Body", bound=RequestBody)


@dataclass(frozen=True)
class Administrator:
    """Who administers, and what there is to administer."""

    actor: Actor
    administration: Administration
    principal: Principal
    address: str

    @property
    def organisation(self) -> str:
        """The organisation, of which nothing leads to another."""
        return self.actor.organisation

    @property
    def scopes(self) -> frozenset[Scope]:
        """What the key gives him."""
        return self.principal.scopes

    async def record(
        self, event: Event, target: str, *, project: str = "", details: Mapping[str, Detail] | None = None
    ) -> None:
        """Write what was done into the audit log.

        Raises:
            StoreUnavailable: it was done, and may not be written.
        """
        who = audit_log.Actor(self.principal.key_id, self.actor.user, await self._email(), self.address)
        await self.administration.audit_log.record(
            self.organisation, event, target, who, project=project, details=details
        )

    async def _email(self) -> str:
        if not self.actor.user:
            return ""
        return (await self.administration.people.member(self.organisation, self.actor.user)).user.email


def _admitted(guard: ApiKeySecurity) -> Callable[..., Coroutine[Any, Any, Administrator]]:
    async def admit(request: Request, caller: Principal = Security(guard)) -> Administrator:  # noqa: B008
        administration = gateway_of(request).administration
        address = request.client.host if request.client is not None else ""
        return Administrator(await administration.actor(caller), administration, caller, address)

    return admit


_reading, _writing = ApiKeySecurity(Scope.ORGANIZATION_READ), ApiKeySecurity(Scope.ORGANIZATION_ADMIN)

Reader = Annotated[Administrator, Depends(_admitted(_reading))]
Writer = Annotated[Administrator, Depends(_admitted(_writing))]


def admin_body(kind: type[Body]) -> Callable[..., Coroutine[Any, Any, Body]]:
    """A dependency that reads the body as `kind`; to be named after `Writer`, so that it is read for him only."""
    return body_of(kind, _writing)
