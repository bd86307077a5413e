"""Administers a whole installation for its operator: lists organisations, changes credit and prices, reports usage.

Operators are the administrators of one organisation, the development organisation. The chat's API, the operator API and
the command line call these services; the first two check `Installation.require_operator` at each request.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from decimal import Decimal
from typing import BinaryIO

from auth_billing.access.roles import OPERATORS, Actor, Role
from auth_billing.audit_log import OPERATOR, AuditActor, AuditLog, Detail, Event
from auth_billing.errors import NoSuchRecord, NotPermitted, UnacceptableValue
from auth_billing.money.billing_records import Balance, BalanceStore
from auth_billing.money.credit import Credit, CreditEntry, CreditKind
from auth_billing.money.installation_usage import InstallationUsage, InstallationUsageRow
from auth_billing.people.organisation_records import Organisation, OrganisationStore
from auth_billing.prices.price_book import PriceBook, PriceVersion
from auth_billing.prices.pricing import NANO, RateCard
from runtime import tables

CSV_COLUMNS = (
    "day",
    "organization_id",
    "organization",
    "model",
    "requests",
    "input_tokens",
    "input_cached_tokens",
    "output_tokens",
    "cost_usd",
)
DAY_SECONDS = 86_400
MAX_DAYS = 366
MAX_USAGE_ROWS = 50_000
MAX_PAGE = 100

_EVENTS = {
    CreditKind.TOP_UP: Event.CREDIT_GRANTED,
    CreditKind.PROMO: Event.CREDIT_GRANTED,
    CreditKind.REFUND: Event.CREDIT_REFUNDED,
    CreditKind.WITHDRAWAL: Event.CREDIT_WITHDRAWN,
}


@dataclass(frozen=True)
class OrganisationAccount:
    """An organisation and its account."""

    organisation: Organisation
    balance: Balance


@dataclass(frozen=True)
class UsageOfAll:
    """The usage of all organisations in a period; see `InstallationUsage`."""

    rows: Sequence[InstallationUsageRow]
    names: dict[str, str]
    """Names of the organisations in `rows`, by id."""
    complete_until: int | None

    async def csv(self) -> BinaryIO:
        """Write the usage of all organisations to a temporary CSV file, one row per day, organisation and model.

        Return the file, open for reading at its beginning; closing deletes it.
        """
        return await tables.csv_file(CSV_COLUMNS, self._table())

    async def _table(self) -> tables.Rows:
        yield [
            (
                day_of(row),
                row.organisation,
                self.names.get(row.organisation, ""),
                row.model,
                row.requests,
                row.input_tokens,
                row.cached_tokens,
                row.output_tokens,
                Decimal(row.cost) / NANO,
            )
            for row in self.rows
        ]


@dataclass(frozen=True)
class Installation:
    """The operator's services. Each coroutine raises `StoreUnavailable` if the store does not answer."""

    organisations: OrganisationStore
    balances: BalanceStore
    credit: Credit
    prices: PriceBook
    usage: InstallationUsage
    audit_log: AuditLog
    operators: str = OPERATORS
    """Id of the organisation whose administrators are the operators."""

    def is_operator(self, actor: Actor) -> bool:
        """Return whether an actor is an operator: an administrator or owner of the operators' organisation."""
        return actor.organisation == self.operators and actor.role.rank >= Role.ADMIN.rank

    def require_operator(self, actor: Actor) -> None:
        """Check that an actor is an operator: an administrator or owner of the operators' organisation.

        Raises:
            NotPermitted: the actor is no operator, but may administer another organisation.
        """
        if not self.is_operator(actor):
            raise NotPermitted("for administrators of the operator's organisation")

    async def page(self, after: str = "", limit: int = MAX_PAGE) -> list[OrganisationAccount]:
        """Return up to `limit` organisations with their credit accounts, sorted by id, from the first after `after`."""
        found = await self.organisations.page(after, limit)
        return [OrganisationAccount(each, await self._balance(each.id)) for each in found]

    async def account(self, organisation: str) -> OrganisationAccount:
        """Return the organisation with this id, with its credit account (an empty account if it has none).

        Raises:
            NoSuchRecord: there is no such organisation.
        """
        found = await self.organisations.find_organisation(organisation)
        if found is None:
            raise NoSuchRecord(f"no organisation {organisation}")
        return OrganisationAccount(found, await self._balance(organisation))

    async def change_credit(
        self,
        kind: CreditKind,
        organisation: str,
        amount: int,
        reference: str,
        reason: str = "",
        *,
        actor: AuditActor = OPERATOR,
    ) -> CreditEntry:
        """Give an organisation credit (a top-up or a promotion), or withdraw unspent credit, once per `reference`.

        Return the ledger entry: of a repeated call, the first one. The audit log of the organisation gets one entry,
        however often the call is repeated, and that of the operators gets one with the `actor`.

        Args:
            kind: any but a refund.
            amount: nano-USD, more than 0.
            reference: the caller's id of the transaction, such as a payment's id.

        Raises:
            NoSuchRecord: there is no such organisation.
            CreditError, UnacceptableValue: the amount, the reference or the reason is refused.
        """
        await self.account(organisation)
        change = {
            CreditKind.TOP_UP: self.credit.top_up,
            CreditKind.PROMO: self.credit.promo,
            CreditKind.WITHDRAWAL: self.credit.withdraw,
        }[kind]
        entry = await change(organisation, amount, reference, reason)
        await self._record_credit(entry, actor)
        return entry

    async def refund(
        self, organisation: str, job: str, amount: int, reference: str, *, actor: AuditActor = OPERATOR
    ) -> CreditEntry:
        """Refund `amount` nano-USD of a settled job's cost, once per `reference`; return the ledger entry.

        The audit logs of the organisation and of the operators get an entry.

        Raises:
            NoSuchRecord: there is no such organisation.
            CreditError: the amount or the reference is refused, or the job has no such charge.
        """
        await self.account(organisation)
        entry = await self.credit.refund(organisation, job, amount, reference)
        await self._record_credit(entry, actor)
        return entry

    async def edit_prices(
        self, model: str | None, rates: RateCard | None, *, seen: int, actor: AuditActor = OPERATOR
    ) -> PriceVersion:
        """Change the prices of a model to `rates`, or remove them (`None`); return the new price version.

        `model` `None`: the default prices. `seen`: number of the version that the caller has changed. The operators'
        audit log gets an entry.

        Raises:
            UnacceptableValue, NoSuchRecord, PriceConflict: the change is refused (`PriceBook.edit`).
        """
        version = await self.prices.edit(model, rates, seen=seen)
        details: dict[str, Detail] = {"version": version.prices.version}
        for service_class, rate in (rates or {}).items():
            details[service_class.value] = f"{rate.input} / {rate.cached_input} / {rate.output} nano-USD"
        target = "default" if model is None else model
        await self.audit_log.record(self.operators, Event.PRICES_UPDATED, target, actor, details=details)
        return version

    async def usage_of_all(self, days: int) -> UsageOfAll:
        """Return all organisations' settled usage in the last `days` (UTC, with today) by day, organisation and model.

        Raises:
            UnacceptableValue: `days` is not from 1 to `MAX_DAYS`, or there are too many rows.
        """
        if not 1 <= days <= MAX_DAYS:
            raise UnacceptableValue("days", f"from 1 to {MAX_DAYS} days")
        until = (int(time.time()) // DAY_SECONDS + 1) * DAY_SECONDS
        rows = await self.usage.rows(until - days * DAY_SECONDS, until, MAX_USAGE_ROWS + 1)
        if len(rows) > MAX_USAGE_ROWS:
            raise UnacceptableValue("days", f"more than {MAX_USAGE_ROWS} rows: ask for fewer days")
        found = await self.organisations.find_organisations(sorted({row.organisation for row in rows}))
        return UsageOfAll(rows, {each.id: each.name for each in found}, await self.usage.complete_until())

    async def _balance(self, organisation: str) -> Balance:
        return await self.balances.find(organisation) or Balance(organisation, 0, 0)

    async def _record_credit(self, entry: CreditEntry, actor: AuditActor) -> None:
        details: dict[str, Detail] = {
            "kind": entry.kind.value,
            "amount_nano_usd": entry.amount,
            "reference": entry.reference,
            **({"reason": entry.reason} if entry.reason else {}),
        }
        # Customers see that the operator acted, but not which person.
        for organisation, who in {entry.organisation: OPERATOR, self.operators: actor}.items():
            event, target = _EVENTS[entry.kind], entry.id
            await self.audit_log.record_once(organisation, event, target, entry.at, who, details=details)


def day_of(row: InstallationUsageRow) -> str:
    """Return the day (UTC) of a row of the installation's usage as text, e.g. `2026-11-21`."""
    return datetime.fromtimestamp(row.start, UTC).date().isoformat()
