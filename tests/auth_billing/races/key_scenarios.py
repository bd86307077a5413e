"""The race of a revocation: one process revokes a key while all authenticate with it (docs/design/money.md#races).

A `name` determines a key.
"""

from __future__ import annotations

import asyncio
import hashlib
import time
from collections.abc import Sequence

from auth_billing.authenticator import Authenticator
from auth_billing.errors import InvalidApiKey
from auth_billing.keys import key_format
from auth_billing.keys.key_format import ApiKey
from auth_billing.keys.key_records import ApiKeyRecord
from auth_billing.store.api_keys import MongoApiKeyStore
from router.messages import KeySet
from tests.auth_billing.races.process_pool import Race, Racer

PEPPER = b"p" * 32


def key_of(name: str) -> ApiKey:
    digest = hashlib.sha256(name.encode()).hexdigest()
    return ApiKey(digest[:10], digest[:43])


def record_of(name: str) -> ApiKeyRecord:
    key = key_of(name)
    return ApiKeyRecord(key.key_id, key_format.digest(PEPPER, key.secret), "last", name, "proj", name, created=1.0)


async def revoke_and_use(racer: Racer, names: Sequence[str]) -> list[bool]:
    """Return for each key whether it was refused at once after the revocation, whatever was in flight."""
    store = MongoApiKeyStore(racer.connection)
    service = Authenticator(store, PEPPER)
    return list(await asyncio.gather(*(_refused(store, service, racer.number == 0, name) for name in names)))


async def _refused(store: MongoApiKeyStore, service: Authenticator, revokes: bool, name: str) -> bool:
    key = key_of(name)
    in_flight = [asyncio.create_task(_is_good(service, key)) for _ in range(3)]
    if revokes:
        await store.revoke(KeySet(key=key.key_id), time.time())
    while (record := await store.find(key.key_id)) is not None and record.revoked is None:
        in_flight.append(asyncio.create_task(_is_good(service, key)))
    service.invalidate(KeySet(key=key.key_id))  # as the invalidation message does
    at_once = not await _is_good(service, key)
    await asyncio.gather(*in_flight)
    return at_once and not await _is_good(service, key)


async def _is_good(service: Authenticator, key: ApiKey) -> bool:
    try:
        await service.authenticate(key.text)
    except InvalidApiKey:
        return False
    return True


REVOKE_AND_USE = Race(revoke_and_use)
