"""Logic of operators' commands on prices, credit, budgets, rate limits and audits (`headrace prices`, `credit`, ...).

Amounts are decimal USD strings, e.g. `12.50` (`auth_billing/money/amounts.py`).
"""

from __future__ import annotations

import uuid
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO

from pydantic import ValidationError

from auth_billing.audit.audit_records import AuditReport
from auth_billing.audit.auditor import Auditor
from auth_billing.audit_log import AuditLog, Event
from auth_billing.errors import NoSuchRecord, UnacceptableValue
from auth_billing.installation import Installation, OrganisationAccount
from auth_billing.money.amounts import parse_usd
from auth_billing.money.billing_records import Balance
from auth_billing.money.budgets import Budgets, BudgetUse
from auth_billing.money.credit import CreditEntry, CreditKind
from auth_billing.money.holds import ORGANISATION_BUDGET, key_budget, project_budget
from auth_billing.people.input_normalisation import fold_email
from auth_billing.prices import price_file
from auth_billing.prices.price_book import PriceVersion
from auth_billing.prices.pricing import PriceList, RateCard
from auth_billing.rate_limits.limits import (
    key_subject,
    model_subject,
    organisation_model_subject,
    organisation_subject,
    parse_limits,
    person_subject,
    project_subject,
)
from auth_billing.store.api_keys import MongoApiKeyStore
from auth_billing.store.audit import MongoAuditStore
from auth_billing.store.audit_log import MongoAuditLogStore
from auth_billing.store.balances import MongoBalanceStore
from auth_billing.store.budgets import MongoBudgetStore
from auth_billing.store.connection import StoreConnection
from auth_billing.store.jobs import MongoJobStore
from auth_billing.store.memberships import MongoMembershipStore
from auth_billing.store.organisations import MongoOrganisationStore
from auth_billing.store.rate_limits import MongoLimitStore
from auth_billing.store.service_accounts import MongoServiceAccountStore
from auth_billing.store.users import MongoUserStore
from gateway.openai.organization.keys import parse_key_id
from infra.accounts.account_services import installation_of


@dataclass(frozen=True)
class Statement:
    """Statement of an organisation: balance, this month's budgets, latest credit entries."""

    balance: Balance
    budgets: Sequence[BudgetUse]
    entries: Sequence[CreditEntry]


@dataclass(frozen=True)
class MoneyCommands:
    """Reads and changes prices, credit and budgets in one store. Every method raises `StoreUnavailable` if it fails."""

    connection: StoreConnection

    @property
    def installation(self) -> Installation:
        """Operator's services (organisations, credit, prices, usage) over this command's store."""
        return installation_of(self.connection)

    async def prices(self) -> PriceList:
        """Return the price list in force in the store; version 0 if there is none yet."""
        return (await self.installation.prices.newest()).prices

    async def set_price(self, model: str | None, entry: Mapping[str, object] | None) -> PriceVersion:
        """Set `entry` as the prices of a model (`None`: the default prices), or remove them if `entry` is `None`.

        Return the new price version, which the store then has.

        Raises:
            UnacceptableValue: `entry`, in the form of a price file, or the model's name is invalid.
            NoSuchRecord: `entry` is `None`, and the model has no prices of its own.
            PriceConflict: the prices are in a file, or were changed at the same moment.
        """
        installation = self.installation
        seen = (await installation.prices.newest()).prices.version
        return await installation.edit_prices(model, None if entry is None else _rates(entry), seen=seen)

    async def organisations(self) -> list[OrganisationAccount]:
        """Return all organisations of the store with their accounts (credit), sorted by id."""
        found: list[OrganisationAccount] = []
        while page := await self.installation.page(found[-1].organisation.id if found else ""):
            found += page
        return found

    async def usage_csv(self, days: int) -> BinaryIO:
        """Write the usage of all organisations in the last `days` to a temporary CSV file; return it, open.

        Closing deletes it.
        """
        return await (await self.installation.usage_of_all(days)).csv()

    async def audit(self) -> AuditReport:
        """Compare balances, ledger and jobs in the store, and return the differences; changes nothing."""
        return await Auditor(MongoAuditStore(self.connection)).audit()

    async def statement(self, organisation: str) -> Statement:
        """Apply an organisation's pending credit; return its balance, this month's budgets and latest credit entries.

        Raises:
            NoSuchRecord: there is no such organisation.
        """
        await self._check_organisation(organisation)
        credit = self.installation.credit
        await credit.apply_pending(organisation)
        balance = await MongoBalanceStore(self.connection).find(organisation)
        used = await self._budgets().used(organisation)
        entries = await credit.newest(organisation)
        return Statement(balance or Balance(organisation, 0, 0), used, entries)

    async def change_credit(
        self, kind: CreditKind, organisation: str, usd: str, reference: str | None, reason: str
    ) -> CreditEntry:
        """Give an organisation a top-up or promotional credit of `usd`, or withdraw it, once per `reference`.

        Without a reference it is done at every call.

        Raises:
            NoSuchRecord: there is no such organisation.
            CreditError: the amount `usd` or the reference is refused.
        """
        amount, reference = parse_usd(usd), reference or uuid.uuid4().hex
        return await self.installation.change_credit(kind, organisation, amount, reference, reason)

    async def refund(self, organisation: str, job: str, usd: str | None, reference: str | None) -> CreditEntry:
        """Refund the cost of one job, or only the part `usd`, to its organisation's credit; return the ledger's entry.

        Raises:
            NoSuchRecord: there is no such organisation.
            CreditError: the job or the amount can't be refunded.
        """
        if usd is not None:
            amount = parse_usd(usd)
        else:
            found = (await MongoJobStore(self.connection).find([job])).get(job)
            amount = (found.cost if found is not None else None) or 1
        return await self.installation.refund(organisation, job, amount, reference or uuid.uuid4().hex)

    async def set_open(self, organisation: str, *, to: bool) -> None:
        """Reopen (`to` is true) or close an organisation's account; new requests of a closed account are refused.

        Raises:
            NoSuchRecord: there is no such organisation.
        """
        await self._check_organisation(organisation)
        balances = MongoBalanceStore(self.connection)
        await balances.create(organisation)
        await balances.set_open(organisation, to=to)
        await self._audit_log().record(
            organisation, Event.ACCOUNT_REOPENED if to else Event.ACCOUNT_CLOSED, organisation
        )

    async def set_budget(
        self, organisation: str, usd: str | None, *, project: str | None = None, key: str | None = None
    ) -> None:
        """Set an organisation's monthly budget, or that of its `project` or `key` (ids); remove it if `usd` is `None`.

        Raises:
            NoSuchRecord: the organisation, project or key does not exist.
            UnacceptableAmount: `usd` is no valid amount.
        """
        await self._check_part(organisation, project, key)
        name = _budget_name(project, key)
        await self._budgets().set(organisation, name, None if usd is None else parse_usd(usd, minimum=0))
        event = Event.BUDGET_DELETED if usd is None else Event.BUDGET_UPDATED
        await self._audit_log().record(organisation, event, name, project=project or "", details={"usd": usd})

    async def limits(
        self,
        organisation: str,
        text: str | None,
        *,
        project: str | None = None,
        model: str | None = None,
        key: str | None = None,
        person: str | None = None,
        remove: bool = False,
    ) -> str:
        """Set the operator's rate limits of one subject to `text`, or `remove` them.

        Return the limits that are set then. The subject is the organisation, its `project` or `key` (ids), a `person`
        (id or e-mail address), or a `model` in all projects or in `project`. Without `text` nothing changes.

        Raises:
            NoSuchRecord: the organisation, project, key or person does not exist.
            UnacceptableValue: `text` is malformed.
        """
        await self._check_part(organisation, project, key)
        if key is not None:
            subject = key_subject(parse_key_id(key), "")
        elif person is not None:
            subject = person_subject(organisation, await self._member(organisation, person))
        elif project is not None:
            subject = project_subject(project) if model is None else model_subject(project, model)
        elif model is not None:
            subject = organisation_model_subject(organisation, model)
        else:
            subject = organisation_subject(organisation)
        store = MongoLimitStore(self.connection)
        if remove:
            await store.remove(subject.operator_id)
            await self._audit_log().record(organisation, Event.RATE_LIMIT_DELETED, subject.id, project=project or "")
            return "none"
        if not text:
            found = await store.find([subject.operator_id])
            return str(found.get(subject.operator_id, "")) or "none"
        try:
            changed = str(await store.change(subject.operator_id, parse_limits(text)))
        except ValueError as error:
            raise UnacceptableValue("limits", str(error)) from error
        details = {"operators_limits": changed}
        await self._audit_log().record(
            organisation, Event.RATE_LIMIT_UPDATED, subject.id, project=project or "", details=details
        )
        return changed

    async def _check_part(self, organisation: str, project: str | None, key: str | None) -> None:
        """Raise `NoSuchRecord` unless the organisation exists and has this key or project, where one is given."""
        await self._check_organisation(organisation)
        if key is not None:
            record = await MongoApiKeyStore(self.connection).find(parse_key_id(key))
            if record is None or record.organisation != organisation:
                raise NoSuchRecord(f"no API key {key} of {organisation}")
        projects = MongoOrganisationStore(self.connection)
        if project is not None and await projects.find_project(organisation, project) is None:
            raise NoSuchRecord(f"no project {project} of {organisation}")

    async def _member(self, organisation: str, person: str) -> str:
        """Return the id of a member, given by id or e-mail address, or of a service account, given by id."""
        accounts = MongoServiceAccountStore(self.connection)
        for project in await MongoOrganisationStore(self.connection).projects(organisation):
            if person in (account.id for account in await accounts.of_project(organisation, project.id)):
                return person
        users = MongoUserStore(self.connection)
        user = await (users.find_by_email(fold_email(person)) if "@" in person else users.find(person))
        if user is None or await MongoMembershipStore(self.connection).find(organisation, user.id) is None:
            raise NoSuchRecord(f"no person {person} in {organisation}")
        return user.id

    async def _check_organisation(self, organisation: str) -> None:
        if await MongoOrganisationStore(self.connection).find_organisation(organisation) is None:
            raise NoSuchRecord(f"no organisation {organisation}")

    def _audit_log(self) -> AuditLog:
        return AuditLog(MongoAuditLogStore(self.connection))

    def _budgets(self) -> Budgets:
        return Budgets(MongoBudgetStore(self.connection), MongoBalanceStore(self.connection))


def _budget_name(project: str | None, key: str | None) -> str:
    if key is not None:
        return key_budget(parse_key_id(key))
    return ORGANISATION_BUDGET if project is None else project_budget(project)


def _rates(entry: Mapping[str, object]) -> RateCard:
    try:
        return price_file.Entry.model_validate(entry).rates()
    except ValidationError as error:
        first = error.errors(include_url=False, include_context=False)[0]
        where = ".".join(map(str, first["loc"])) or "prices"
        raise UnacceptableValue(where, f"{where}: {first['msg'].removeprefix('Value error, ')}") from error


def prices_of(file: Path, catalogue: Path | None) -> PriceList:
    """Read a price file, and the prices in a proxy's `catalogue` if given.

    Return their price list, without applying it.

    Raises:
        StartupError: the file is invalid; the message says why.
    """
    sources = [price_file.source(path) for path in (file, catalogue) if path is not None]
    return price_file.parse(*sources).price_list(0)
