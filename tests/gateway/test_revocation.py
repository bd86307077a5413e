"""A key that is ended is refused by every gateway at once, whatever they remember of it."""

from __future__ import annotations

import httpx
import pytest

from auth_billing.idempotency import IdempotencyKeys
from auth_billing.issuing import KeyWish
from auth_billing.key_management import ApiKeys
from auth_billing.key_news import announcer
from auth_billing.records import Organisation, Project
from auth_billing.roles import Actor, Role
from auth_billing.service import AuthBilling
from gateway.app import GatewayServices, create_app
from gateway.settings import GatewaySettings
from router.bus import Bus
from router.messages import KeySet
from router.transport.memory import MemoryBroker, MemoryTransport
from tests.fakes.accounts import DictAccountStore, DictApiKeyStore, DictIdempotencyStore
from tests.fakes.administration import DictOrganisation
from tests.gateway.conftest import eventually

PEPPER = b"p" * 32
ADMIN = Actor("acme", "user-1", Role.ADMIN)


@pytest.mark.parametrize("ended", ["key", "project", "user", "organisation"])
async def test_every_gateway_refuses_it_at_once(ended: str) -> None:
    broker, store, accounts = MemoryBroker(), DictApiKeyStore(), DictAccountStore()
    await accounts.ensure_organisation(Organisation("acme", "Acme", 1.0))
    await accounts.ensure_project(Project("proj", "acme", "Web", 1.0))
    buses = [Bus(MemoryTransport(broker, f"gateway-{number}")) for number in range(2)]
    for bus in buses:
        await bus.start()
    services = [AuthBilling(store, PEPPER) for _ in buses]
    apps = [
        create_app(
            GatewayServices(bus, service, IdempotencyKeys(DictIdempotencyStore()), DictOrganisation().administration),
            GatewaySettings(gateway_id=f"gateway-{number}", registry_warmup=0.0),
        )
        for number, (bus, service) in enumerate(zip(buses, services, strict=True))
    ]
    keys = ApiKeys(store, accounts, PEPPER, announcer(buses[0]))
    key, other = [await keys.create(actor, "proj", KeyWish("k")) for actor in (ADMIN, Actor("acme", "", Role.ADMIN))]
    async with apps[0].router.lifespan_context(apps[0]), apps[1].router.lifespan_context(apps[1]):
        clients = [httpx.AsyncClient(transport=httpx.ASGITransport(app), base_url="http://gateway") for app in apps]

        async def answers(text: str) -> list[int]:
            headers = {"authorization": f"Bearer {text}"}
            return [(await client.get("/v1/models", headers=headers)).status_code for client in clients]

        assert await answers(key.key.text) == [200, 200]
        assert await answers(other.key.text) == [200, 200]
        heard = [service._cache.generation for service in services]
        sets = {"key": key.record.key_id, "project": "proj", "user": "user-1", "organisation": "acme"}
        await keys.revoke_all(KeySet(**{ended: sets[ended]}))
        await eventually(
            lambda: [service._cache.generation for service in services] == [before + 1 for before in heard]
        )
        assert await answers(key.key.text) == [401, 401]
        assert await answers(other.key.text) == ([200, 200] if ended in ("key", "user") else [401, 401])
        for client in clients:
            await client.aclose()
    for bus in buses:
        await bus.close()
    assert store.records[other.record.key_id].last_used is not None  # written when a gateway ends
