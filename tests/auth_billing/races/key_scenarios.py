"""What the processes of the race of a revocation do
(docs/design/money.md#races): one ends a key while all use it. A name is a key's."""

from __future__ import annotations

import asyncio
import hashlib
import time
from collections.abc import Sequence

from auth_billing.authenticator import AuthBilling
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


async def end_and_use(racer: Racer, names: Sequence[str]) -> list[bool]:
    """Of each key, whether it is refused as soon as its end is known, whatever was in flight."""
    store = MongoApiKeyStore(racer.connection)
    service = AuthBilling(store, PEPPER)
    return list(await asyncio.gather(*(_refused(store, service, racer.number == 0, name) for name in names)))


async def _refused(store: MongoApiKeyStore, service: AuthBilling, ends_it: bool, name: str) -> bool:
    key = key_of(name)
    in_flight = [asyncio.create_task(_is_good(service, key)) for _ in range(3)]
    if ends_it:
        await store.revoke(KeySet(key=key.key_id), time.time())
    while (record := await store.find(key.key_id)) is not None and record.revoked is None:
        in_flight.append(asyncio.create_task(_is_good(service, key)))
    service.forget(KeySet(key=key.key_id))  # the news
    at_once = not await _is_good(service, key)
    await asyncio.gather(*in_flight)
    return at_once and not await _is_good(service, key)


async def _is_good(service: AuthBilling, key: ApiKey) -> bool:
    try:
        await service.authenticate(key.text)
    except InvalidApiKey:
        return False
    return True


END_AND_USE = Race(end_and_use)
