"""In-memory billing stores that can be made unavailable; they pass the tests of the MongoDB stores."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace

from auth_billing.money.billing_records import (
    Balance,
    BillingStores,
    Charge,
    Hold,
    JobRecord,
    JobState,
    LedgerEntry,
    UsageStatement,
)
from auth_billing.money.message_validation import MAX_INT
from auth_billing.prices.price_book import PriceBook, PriceVersion
from auth_billing.prices.pricing import PriceList, TokenRate
from router.messages import ServiceClass
from router.usage_arithmetic import JobUsage, most, most_parts
from tests.fakes.accounts import Absence


class DictBalanceStore:
    def __init__(self, absence: Absence) -> None:
        self.absence = absence
        self.balances: dict[str, Balance] = {}

    async def create(self, organisation: str) -> None:
        self.absence.check()
        self.balances.setdefault(organisation, Balance(organisation, 0, 0))

    async def find(self, organisation: str) -> Balance | None:
        self.absence.check()
        await asyncio.sleep(0)
        return self.balances.get(organisation)

    async def with_holds(self) -> Sequence[Balance]:
        self.absence.check()
        return [each for each in self.balances.values() if each.held]

    async def hold(self, jobs: Sequence[JobRecord], budgets: Mapping[str, int]) -> bool:
        self.absence.check()
        await asyncio.sleep(0)
        balance, one, total = self.balances.get(jobs[0].organisation), jobs[0], sum(job.hold for job in jobs)
        if balance is None or not balance.is_open or balance.available < total or balance.budgets != budgets:
            return False
        used = balance.used.get(one.month, {})
        if any(used.get(name, 0) + total > balance.budgets.get(name, MAX_INT) for name in one.budgets):
            return False
        if any(job.id in balance.held for job in jobs):
            return False
        self._hold(balance, jobs)
        return True

    async def restore_hold(self, job: JobRecord, version: int) -> bool:
        self.absence.check()
        balance = self.balances[job.organisation]
        if balance.version != version or job.id in balance.held:
            return False
        self._hold(balance, [job])
        return True

    async def extend_lease(self, seen: Balance, id: str, lease: Hold) -> bool:
        self.absence.check()
        await asyncio.sleep(0)
        there = self.balances[seen.organisation]
        used = there.used.get(lease.month, {})
        if there.budgets != seen.budgets or (id in there.held) != (id in seen.held):
            return False
        if not there.is_open or there.available < lease.amount:
            return False
        if any(used.get(name, 0) + lease.amount > there.budgets.get(name, MAX_INT) for name in lease.budgets):
            return False
        more = replace(lease, amount=lease.amount + (there.held[id].amount if id in there.held else 0))
        self.balances[seen.organisation] = replace(
            there,
            available=there.available - lease.amount,
            held={**there.held, id: more},
            used=_more(there, lease, lease.amount),
            version=there.version + 1,
        )
        return True

    async def hold_from_leases(self, organisation: str, jobs: Mapping[str, Sequence[JobRecord]]) -> bool:
        self.absence.check()
        await asyncio.sleep(0)
        there = self.balances[organisation]
        held = dict(there.held)
        for lease, of_it in jobs.items():
            total = sum(job.hold for job in of_it)
            if lease not in held or held[lease].amount < total or any(job.id in held for job in of_it):
                return False
            held[lease] = replace(held[lease], amount=held[lease].amount - total)
            held.update((job.id, Hold(job.hold, job.month, job.project, job.key)) for job in of_it)
        self.balances[organisation] = replace(there, held=held, version=there.version + 1)
        return True

    async def settle(self, charges: Sequence[Charge]) -> bool:
        self.absence.check()
        await asyncio.sleep(0)
        balance = self.balances.get(charges[0].job.organisation)
        if balance is None or any(each.job.id not in balance.held for each in charges):
            return False
        for each in charges:
            self._release(each.job.organisation, each.job.id, each.job, each.job.hold - each.cost, each.cost)
        return True

    async def release(self, organisation: str, id: str, hold: Hold) -> bool:
        self.absence.check()
        there = self.balances[organisation].held.get(id)
        if there is None or there.amount != hold.amount:
            return False
        self._release(organisation, id, hold, hold.amount, 0)
        return True

    async def drop_months(self, organisation: str, months: Collection[str]) -> None:
        self.absence.check()
        balance = self.balances[organisation]
        used = {month: each for month, each in balance.used.items() if month not in months}
        self.balances[organisation] = replace(balance, used=used)

    async def set_open(self, organisation: str, *, to: bool) -> bool:
        self.absence.check()
        if organisation not in self.balances:
            return False
        self.balances[organisation] = replace(self.balances[organisation], is_open=to)
        return True

    async def set(self, organisation: str, name: str, limit: int | None) -> None:
        """As `budgets.BudgetStore`."""
        balance = self.balances[organisation]
        budgets = {each: amount for each, amount in balance.budgets.items() if each != name}
        self.balances[organisation] = replace(balance, budgets=budgets if limit is None else {**budgets, name: limit})

    async def inherit(self, organisation: str, successor: str, limit: int, month: str, used: int) -> None:
        """As `budgets.BudgetStore`."""
        balance = self.balances[organisation]
        in_month = {**balance.used.get(month, {}), successor: used}
        self.balances[organisation] = replace(
            balance, budgets={**balance.budgets, successor: limit}, used={**balance.used, month: in_month}
        )

    def _hold(self, balance: Balance, jobs: Sequence[JobRecord]) -> None:
        entries = {job.id: Hold(job.hold, job.month, job.project, job.key) for job in jobs}
        total = sum(job.hold for job in jobs)
        self.balances[balance.organisation] = replace(
            balance,
            available=balance.available - total,
            held={**balance.held, **entries},
            used=_more(balance, jobs[0], total),
            version=balance.version + 1,
        )

    def _release(self, organisation: str, job: str, of: JobRecord | Hold, unused: int, spent: int) -> None:
        balance = self.balances[organisation]
        self.balances[organisation] = replace(
            balance,
            available=balance.available + unused,
            spent=balance.spent + spent,
            held={each: hold for each, hold in balance.held.items() if each != job},
            used=_more(balance, of, -unused),
            version=balance.version + 1,
        )


def _more(balance: Balance, of: JobRecord | Hold, amount: int) -> dict[str, Mapping[str, int]]:
    month = Counter(balance.used.get(of.month, {}))
    month.update(dict.fromkeys(of.budgets, amount))
    return {**balance.used, of.month: dict(month)}


class DictJobStore:
    def __init__(self, absence: Absence) -> None:
        self.absence = absence
        self.jobs: dict[str, JobRecord] = {}

    async def insert(self, jobs: Sequence[JobRecord]) -> None:
        self.absence.check()
        await asyncio.sleep(0)
        for job in jobs:
            self.jobs.setdefault(job.id, job)

    async def find(self, jobs: Collection[str]) -> Mapping[str, JobRecord]:
        self.absence.check()
        await asyncio.sleep(0)
        return {job: self.jobs[job] for job in jobs if job in self.jobs}

    async def checkpoint(self, usage: Mapping[str, JobUsage]) -> None:
        self.absence.check()
        for job, each in usage.items():
            there = self.jobs.get(job)
            if there is not None and there.state is JobState.HELD:
                self.jobs[job] = replace(there, checkpoint=_most(there.checkpoint or each, each))

    async def charge(self, charges: Sequence[Charge]) -> bool:
        self.absence.check()
        await asyncio.sleep(0)
        all_held = True
        for each in charges:
            there = self.jobs.get(each.job.id)
            if there is not None and there.state is JobState.HELD:
                self.jobs[there.id] = replace(each, job=there).charged
            else:
                all_held = False
        return all_held

    async def finish(self, jobs: Collection[str]) -> None:
        self.absence.check()
        for job in jobs:
            if self.jobs[job].state is JobState.SETTLING:
                self.jobs[job] = replace(self.jobs[job], state=JobState.SETTLED)

    async def settling_since(self, before: float, limit: int) -> Sequence[JobRecord]:
        self.absence.check()
        late = (job for job in self.jobs.values() if job.final is not None and job.final.at < before)
        return [job for job in late if job.state is JobState.SETTLING][:limit]

    async def held(self, limit: int) -> Sequence[JobRecord]:
        self.absence.check()
        held = [job for job in self.jobs.values() if job.state is JobState.HELD]
        return sorted(held, key=lambda job: job.deadline)[:limit]

    async def held_by_gateways(self, gateways: Collection[str], limit: int) -> Sequence[JobRecord]:
        return [job for job in await self.held(limit) if job.gateway in gateways]

    async def gateways(self) -> Collection[str]:
        self.absence.check()
        return {job.gateway for job in self.jobs.values() if job.state is JobState.HELD}


def _most(one: JobUsage, other: JobUsage) -> JobUsage:
    return JobUsage(most(one.answer, other.answer), most_parts(one.parts, other.parts))


class DictLedgerStore:
    def __init__(self, absence: Absence) -> None:
        self.absence = absence
        self.entries: dict[str, LedgerEntry] = {}

    async def post(self, entries: Sequence[LedgerEntry]) -> None:
        self.absence.check()
        for entry in entries:
            self.entries.setdefault(entry.id, entry)


class DictHeartbeatStore:
    def __init__(self, absence: Absence) -> None:
        self.absence = absence
        self.beats: Counter[str] = Counter()

    async def increment(self, gateway: str) -> None:
        self.absence.check()
        self.beats[gateway] += 1

    async def counts(self) -> Mapping[str, int]:
        self.absence.check()
        return dict(self.beats)


class DictAnsweredJobs:
    def __init__(self, absence: Absence) -> None:
        self.absence = absence
        self.by_record: dict[str, dict[str, UsageStatement]] = {}

    async def statements(self, records: Collection[str]) -> Mapping[str, UsageStatement]:
        self.absence.check()
        return {job: each for record in records for job, each in self.by_record.get(record, {}).items()}


def dict_billing_stores(absence: Absence | None = None) -> BillingStores:
    """Return in-memory billing stores; `absence` makes all of them unavailable."""
    absence = absence or Absence()
    return BillingStores(
        DictBalanceStore(absence),
        DictJobStore(absence),
        DictLedgerStore(absence),
        DictHeartbeatStore(absence),
        DictAnsweredJobs(absence),
    )


class OneVersion:
    """A price store that has one version, which a test may change."""

    def __init__(self, prices: PriceList) -> None:
        self.prices = prices

    async def newest(self) -> PriceVersion | None:
        return PriceVersion(self.prices, 0.0)

    async def add(self, version: PriceVersion) -> bool:
        self.prices = version.prices
        return True


def flat_price(input: int = 2, cached_input: int = 1, output: int = 10, version: int = 1) -> PriceList:
    """The same price for every model and class."""
    rate = TokenRate(input, cached_input, output)
    return PriceList(version, {}, dict.fromkeys(ServiceClass, rate))


def price_book(prices: PriceList | None = None) -> PriceBook:
    return PriceBook(OneVersion(prices or flat_price()))
