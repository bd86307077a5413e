"""An organisation with an owner, an administrator and a viewer, each with an admin key, beside another organisation."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import AsyncExitStack
from dataclasses import dataclass
from typing import Any

import httpx
import httpx2
import openai
import pytest

from auth_billing.access.principal import Principal
from auth_billing.access.roles import Role
from auth_billing.access.scopes import ADMIN_SCOPES, Scope
from auth_billing.audit_log import AuditEntry
from auth_billing.people.organisation_records import Organisation, Project
from auth_billing.people.people_records import User
from tests.gateway.conftest import SetStage, Stage

OURS, THEIRS = "org-ours", "org-theirs"
FOREIGN = "hr_live_foreign_owner"
ROLES = {"owner": Role.OWNER, "admin": Role.ADMIN, "member": Role.MEMBER, "viewer": Role.VIEWER}


def key_of(name: str) -> str:
    return f"hr_live_{name}"


@dataclass
class AdminApi:
    """Clients of the organisation API."""

    stage: Stage
    clients: AsyncExitStack

    def client(self, key: str = key_of("owner")) -> openai.AsyncOpenAI:
        """The stock SDK as an admin client."""
        transport = httpx2.ASGITransport(self.stage.app)
        client = openai.AsyncOpenAI(
            base_url="http://gateway/v1",
            api_key="unused",
            admin_api_key=key,
            max_retries=0,
            http_client=httpx2.AsyncClient(transport=transport),
        )
        self.clients.push_async_callback(client.close)
        return client

    @property
    def sdk(self) -> Any:
        """`client.admin.organization` of the owner."""
        return self.client().admin.organization

    async def request(self, method: str, path: str, *, key: str = key_of("owner"), **fields: Any) -> httpx.Response:
        headers = {"authorization": f"Bearer {key}", **fields.pop("headers", {})}
        return await self.stage.client.request(method, f"/v1/organization{path}", headers=headers, **fields)

    @property
    def audit_entries(self) -> list[AuditEntry]:
        return self.stage.organisation.audit_log.entries


@pytest.fixture
async def admin_api(request: pytest.FixtureRequest, set_stage: SetStage) -> AsyncIterator[AdminApi]:
    """The organisation API; a test's parameter has settings of the gateway."""
    stage = await set_stage(**getattr(request, "param", {}))
    accounts, members = stage.organisation.accounts, stage.organisation.administration.members
    for number, organisation in enumerate((OURS, THEIRS)):
        await accounts.ensure_organisation(Organisation(organisation, organisation, 1.0))
        await accounts.ensure_project(Project(f"proj_{number}", organisation, f"Project {number}", 1.0 + number))
    for number, (name, role) in enumerate(ROLES.items()):
        await stage.organisation.users.add(User(f"user-{name}", f"{name}@example.org", name.title(), 1.0, "hash"))
        await members.join(OURS, f"user-{name}", role, 10.0 + number)
        stage.accounts.added[key_of(name)] = Principal(
            name, OURS, "salt", user=f"user-{name}", scopes=frozenset(ADMIN_SCOPES)
        )
    stage.accounts.added[FOREIGN] = Principal("foreign", THEIRS, "salt", scopes=frozenset(ADMIN_SCOPES))
    stage.accounts.added[key_of("reader")] = Principal(
        "reader", OURS, "salt", user="user-owner", scopes=frozenset({Scope.ORGANIZATION_READ})
    )
    stage.accounts.added[key_of("operator")] = Principal("operator", OURS, "salt", scopes=frozenset(ADMIN_SCOPES))
    async with AsyncExitStack() as clients:
        yield AdminApi(stage, clients)
