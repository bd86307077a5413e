"""Factory of account services: opens the store's connection, loads the pepper, creates the development account."""

from __future__ import annotations

import secrets
import time
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass

from auth_billing.administration import Administration
from auth_billing.audit_log import AuditLog
from auth_billing.authenticator import Authenticator
from auth_billing.development_account import ORGANISATION, ensure_development_account
from auth_billing.document_audit import DocumentAudit
from auth_billing.errors import InvalidApiKey, StoreUnavailable
from auth_billing.idempotency import IdempotencyKeys
from auth_billing.installation import Installation
from auth_billing.keys.key_invalidation import no_invalidation
from auth_billing.keys.key_management import ApiKeys
from auth_billing.keys.pepper import load_pepper
from auth_billing.keys.service_accounts import ServiceAccounts
from auth_billing.money.billing import Billing
from auth_billing.money.budgets import Budgets
from auth_billing.money.credit import Credit
from auth_billing.people.invitations import Invitations
from auth_billing.people.members import Members
from auth_billing.people.model_policies import ModelPolicies
from auth_billing.people.moderation_policies import ModerationPolicies
from auth_billing.people.projects import Projects
from auth_billing.prices.price_book import PriceBook
from auth_billing.prices.pricing import NANO
from auth_billing.rate_limits.limit_registry import LimitRegistry
from auth_billing.rate_limits.limiter import RateLimiter
from auth_billing.rate_limits.limits import Limits, SubjectKind
from auth_billing.rate_limits.store_circuit import StoreCircuit
from auth_billing.store.api_keys import MongoApiKeyStore
from auth_billing.store.audit_log import MongoAuditLogStore
from auth_billing.store.balances import MongoBalanceStore
from auth_billing.store.billing_stores import mongo_billing_stores
from auth_billing.store.budgets import MongoBudgetStore
from auth_billing.store.connection import StoreConnection
from auth_billing.store.credits import MongoCreditStore
from auth_billing.store.idempotency import MongoIdempotencyStore
from auth_billing.store.installation_usage import MongoInstallationUsage
from auth_billing.store.invitations import MongoInvitationStore
from auth_billing.store.jobs import MongoJobStore
from auth_billing.store.memberships import MongoMembershipStore
from auth_billing.store.model_policies import MongoModelPolicyStore
from auth_billing.store.moderation_policies import MongoModerationPolicyStore
from auth_billing.store.organisations import MongoOrganisationStore
from auth_billing.store.prices import MongoPriceStore
from auth_billing.store.rate_buckets import MongoBucketStore
from auth_billing.store.rate_limits import MongoLimitStore
from auth_billing.store.service_accounts import MongoServiceAccountStore
from auth_billing.store.sessions import MongoSessionStore
from auth_billing.store.usage_reports import MongoUsageReports
from auth_billing.store.users import MongoUserStore
from infra.accounts.embedded_store import running_store_url
from infra.home.credentials import read_client_key, read_client_url, write_client_env
from infra.home.home import Home
from router.messages import KeySet
from router.timings import DEFAULT_TIMINGS, Timings
from runtime.lifecycle import StartupError

DEVELOPMENT_CREDIT = 1_000_000 * NANO
"""Initial credit of the development account: a million USD."""
DEVELOPMENT_REFERENCE = "development"


@dataclass(frozen=True)
class AccountServices:
    """Factory of account services (keys, budgets, credit, billing, rate limits) that use one connected store.

    Its coroutines raise `StoreUnavailable` if the store does not answer.
    """

    home: Home
    connection: StoreConnection
    pepper: bytes
    timings: Timings = DEFAULT_TIMINGS

    def authenticator(self) -> Authenticator:
        """Create the authenticator by which a gateway checks the API keys of requests."""
        return Authenticator(MongoApiKeyStore(self.connection), self.pepper, self.model_policies())

    def idempotency_keys(self) -> IdempotencyKeys:
        """Create the service that recognises repeated API requests by their `Idempotency-Key` header."""
        return IdempotencyKeys(MongoIdempotencyStore(self.connection), lease=self.timings.idempotency_lease)

    def keys(self, announce: Callable[[KeySet], None] = no_invalidation) -> ApiKeys:
        """Create the service that issues and revokes API keys; it calls `announce` to notify gateways of changes."""
        accounts, keys = MongoOrganisationStore(self.connection), MongoApiKeyStore(self.connection)
        memberships = MongoMembershipStore(self.connection)
        limits = MongoLimitStore(self.connection)
        return ApiKeys(keys, accounts, memberships, self.budgets(), limits, self.pepper, announce)

    def model_policies(self, announce: Callable[[KeySet], None] = no_invalidation) -> ModelPolicies:
        """Create the service that restricts the models of projects, roles and members; it notifies by `announce`."""
        accounts, memberships = MongoOrganisationStore(self.connection), MongoMembershipStore(self.connection)
        return ModelPolicies(MongoModelPolicyStore(self.connection), accounts, memberships, announce)

    def budgets(self) -> Budgets:
        """Create the service that reads and sets monthly budgets of organisations, projects and API keys."""
        return Budgets(MongoBudgetStore(self.connection), MongoBalanceStore(self.connection))

    def administration(self, announce: Callable[[KeySet], None]) -> Administration:
        """Create the services behind the administration API; `announce` notifies gateways of changed keys."""
        accounts = MongoOrganisationStore(self.connection)
        keys = self.keys(announce)
        users, memberships = MongoUserStore(self.connection), MongoMembershipStore(self.connection)
        sessions = MongoSessionStore(self.connection)
        invitations = Invitations(MongoInvitationStore(self.connection), self.pepper)
        audit_log = AuditLog(MongoAuditLogStore(self.connection))
        return Administration(
            projects=Projects(accounts),
            members=Members(users, memberships, accounts, sessions, invitations, keys.revoke_all),
            invitations=invitations,
            model_policies=self.model_policies(announce),
            moderation_policies=ModerationPolicies(MongoModerationPolicyStore(self.connection), accounts),
            keys=keys,
            service_accounts=ServiceAccounts(MongoServiceAccountStore(self.connection)),
            budgets=self.budgets(),
            audit_log=audit_log,
            document_audit=DocumentAudit(audit_log, accounts, users),
            usage=MongoUsageReports(self.connection),
            installation=installation_of(self.connection),
        )

    def credit(self) -> Credit:
        """Create the service that adds credit to, and takes it from, organisations' accounts."""
        return Credit(MongoCreditStore(self.connection), MongoJobStore(self.connection))

    def rate_limiter(self, gateway_id: str, defaults: Mapping[SubjectKind, Limits]) -> RateLimiter:
        """Create the rate limiter of one gateway; `defaults` hold for subjects without limits of their own."""
        circuit = StoreCircuit(time.monotonic)
        book = LimitRegistry(MongoLimitStore(self.connection), defaults, circuit)
        # Unique per run: leases of an earlier run of the same gateway are not its own.
        holder = f"{gateway_id}-{secrets.token_hex(4)}"
        return RateLimiter(MongoBucketStore(self.connection), book, holder, circuit)

    def billing(self) -> Billing:
        """Create the service by which a gateway holds credit for jobs, and billing settles them."""
        prices = PriceBook(MongoPriceStore(self.connection))
        return Billing(mongo_billing_stores(self.connection), prices, timings=self.timings)

    async def write_development_key(self, base_url: str) -> str:
        """Write `client.env` of the home, with `base_url` and a valid API key of the development account.

        Return the key.
        """
        key = await self._development_key(read_client_key(self.home))
        write_client_env(self.home, base_url, key)
        return key

    async def renew_development_key(self) -> str:
        """Create and return an API key of the development account, and revoke its earlier keys.

        A `client.env` of the home with one of those gets the new key.
        """
        known = read_client_key(self.home)
        replaced = known is not None and await self._is_development_key(known)
        key = await self._development_key(None)
        if replaced:
            write_client_env(self.home, read_client_url(self.home), key)
        return key

    async def _is_development_key(self, key: str) -> bool:
        try:
            return (await self.authenticator().authenticate(key)).tenant == ORGANISATION
        except InvalidApiKey:
            return False  # of another store, perhaps

    async def _development_key(self, known: str | None) -> str:
        accounts, keys = MongoOrganisationStore(self.connection), MongoApiKeyStore(self.connection)
        key = await ensure_development_account(accounts, keys, self.pepper, known)
        await self.credit().promo(ORGANISATION, DEVELOPMENT_CREDIT, DEVELOPMENT_REFERENCE)
        return key


def installation_of(connection: StoreConnection) -> Installation:
    """Create the operator's services (organisations, credit, prices, usage, audits) over a connected store."""
    return Installation(
        MongoOrganisationStore(connection),
        MongoBalanceStore(connection),
        Credit(MongoCreditStore(connection), MongoJobStore(connection)),
        PriceBook(MongoPriceStore(connection)),
        MongoInstallationUsage(connection),
        AuditLog(MongoAuditLogStore(connection)),
    )


@asynccontextmanager
async def opened(home: Home, mongodb_url: str, pepper: str = "") -> AsyncIterator[AccountServices]:
    """Connect to a store and yield the factory of its account services; close the connection when the context ends.

    Without a URL it is the store of the launcher that runs in `home`.

    Raises:
        StartupError: no store is there, or the pepper is unusable.
    """
    async with open_store(home, mongodb_url) as connection:
        yield AccountServices(home, connection, load_pepper(home.path, pepper))


@asynccontextmanager
async def open_store(home: Home, mongodb_url: str) -> AsyncIterator[StoreConnection]:
    """Connect to a store and yield the connection; close it when the context ends.

    Without a URL it is the store of the launcher that runs in `home`.

    Raises:
        StartupError: no store is there, or the context was left by `StoreUnavailable`.
    """
    url = mongodb_url or running_store_url(home)
    if url is None:
        raise StartupError(
            f"nothing runs in {home.path}, and no store is given: "
            "set HEADRACE_MONGODB_URL, for example mongodb://127.0.0.1:27017/headrace"
        )
    connection = StoreConnection(url)
    try:
        await connection.ping()
        yield connection
    except StoreUnavailable as error:
        raise StartupError(f"cannot reach the store: {error}") from error
    finally:
        connection.close()
