"""Creates the MongoDB indexes that queries of `auth_billing` need, at start-up; existing ones are kept."""

from __future__ import annotations

from auth_billing.store import (
    alerts,
    api_keys,
    audit_log,
    gateway_heartbeats,
    idempotency,
    identities,
    invitations,
    jobs,
    ledger,
    memberships,
    model_policies,
    organisations,
    password_resets,
    rate_buckets,
    service_accounts,
    sessions,
    usage,
    usage_rollups,
    users,
)
from auth_billing.store.connection import StoreConnection


async def create_indexes(connection: StoreConnection) -> None:
    """Create the MongoDB indexes of all collections of `auth_billing`; existing ones are kept.

    Raises:
        StoreUnavailable: the store does not answer.
    """
    await connection.durable(api_keys.COLLECTION).create_index([("organisation", 1), ("project", 1)])
    await connection.durable(api_keys.COLLECTION).create_index([("user", 1)])
    await connection.durable(organisations.PROJECTS).create_index([("organisation", 1)])
    await connection.durable(users.COLLECTION).create_index([(users.UNIQUE, 1)], unique=True)
    await connection.durable(memberships.COLLECTION).create_index([("organisation", 1), ("added", 1)])
    await connection.durable(memberships.COLLECTION).create_index([("user", 1), ("added", 1)])
    await connection.durable(model_policies.COLLECTION).create_index([("organisation", 1)])
    await connection.durable(invitations.COLLECTION).create_index([("digest", 1)], unique=True)
    await connection.durable(invitations.COLLECTION).create_index([("organisation", 1), ("created", -1)])
    await connection.durable(sessions.COLLECTION).create_index([("user", 1)])
    await connection.durable(sessions.COLLECTION).create_index([(sessions.EXPIRES, 1)], expireAfterSeconds=0)
    resets = connection.durable(password_resets.COLLECTION)
    await resets.create_index([("digest", 1)], unique=True)
    await resets.create_index([(password_resets.EXPIRES, 1)], expireAfterSeconds=0)
    await connection.durable(memberships.COLLECTION).create_index([("confirmed", 1)])
    await connection.durable(identities.COLLECTION).create_index([("user", 1)])
    await connection.durable(identities.STATES).create_index([(identities.EXPIRES, 1)], expireAfterSeconds=0)
    await connection.durable(idempotency.COLLECTION).create_index([("expires", 1)], expireAfterSeconds=0)
    await connection.durable(service_accounts.COLLECTION).create_index([("organisation", 1), ("project", 1)])
    await connection.durable(audit_log.COLLECTION).create_index([("organisation", 1), ("_id", -1)])
    await connection.durable(alerts.COLLECTION).create_index([("sent", 1), ("lease", 1)])
    await connection.durable(alerts.COLLECTION).create_index([("expires", 1)], expireAfterSeconds=0)
    await connection.unjournaled(rate_buckets.COLLECTION).create_index([("expires", 1)], expireAfterSeconds=0)
    await connection.durable(usage.COLLECTION).create_index([("job", 1)])
    await connection.durable(jobs.COLLECTION).create_index([("organisation", 1), ("final.at", 1)])
    await connection.durable(jobs.COLLECTION).create_index([("state", 1), ("deadline", 1)])
    await connection.durable(usage_rollups.COLLECTION).create_index([("organisation", 1), ("at", 1)])
    await connection.durable(usage_rollups.COLLECTION).create_index([("at", 1)])
    await connection.durable(ledger.COLLECTION).create_index([("organisation", 1), ("at", -1)])
    await connection.durable(ledger.COLLECTION).create_index(
        [("organisation", 1), ("number", 1)], unique=True, partialFilterExpression={"number": {"$gt": 0}}
    )
    await connection.durable(ledger.COLLECTION).create_index(
        [("organisation", 1), ("withdrawal", 1)], unique=True, partialFilterExpression={"withdrawal": {"$gt": 0}}
    )
    await connection.durable(gateway_heartbeats.COLLECTION).create_index(
        [("at", 1)], expireAfterSeconds=gateway_heartbeats.RETENTION_PERIOD
    )
