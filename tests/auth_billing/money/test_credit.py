"""Credit with stores in memory and in MongoDB: credited once, however often and concurrently it is requested.

See docs/design/money.md#races and docs/design/hostile-input.md#H88, H95.
"""

from __future__ import annotations

import asyncio

import pytest
from prometheus_client import CollectorRegistry

from auth_billing.errors import (
    CreditNotAvailable,
    NoSuchCharge,
    ReferenceReused,
    RefundTooLarge,
    StoreUnavailable,
    TooMuchCredit,
    UnacceptableAmount,
    UnacceptableReference,
    UnacceptableValue,
)
from auth_billing.metrics import BillingMetrics
from auth_billing.money.billing import Billing
from auth_billing.money.billing_records import Balance, BillingStores, SettlementSource, UsageStatement
from auth_billing.money.credit import Credit, CreditEntry, CreditKind, CreditStore
from auth_billing.money.settler import Settler
from router.messages import Outcome, Usage
from tests.auth_billing.workload import HELD, ORGANISATION, hold, hold_request, principal
from tests.fakes.accounts import Absence
from tests.fakes.billing_stores import DictBalanceStore, dict_billing_stores, price_book
from tests.fakes.credits import DictCreditStore

USED = Usage(prompt_tokens=100, completion_tokens=7)
COST = 100 * 2 + 7 * 10


@pytest.fixture
def credit(credit_store: CreditStore, stores: BillingStores) -> Credit:
    return Credit(credit_store, stores.jobs, clock=lambda: 5.5)


async def balance(stores: BillingStores) -> Balance:
    found = await stores.balances.find(ORGANISATION)
    assert found is not None
    held = sum(each.amount for each in found.held.values())
    assert found.available + found.spent + held + found.withdrawn == found.credited
    return found


async def settled_job(stores: BillingStores, job: str = "job-1") -> None:
    await hold(Billing(stores, price_book()), principal(), [hold_request(job)])
    settler = Settler(stores, BillingMetrics(CollectorRegistry()))
    await settler.settle({job: UsageStatement(USED, Outcome.FINISHED, SettlementSource.RECEIPT)})


async def test_a_top_up_is_available(credit: Credit, stores: BillingStores) -> None:
    entry = await credit.top_up(ORGANISATION, 5 * HELD, "payment-1")
    assert entry == CreditEntry(ORGANISATION, 1, CreditKind.TOP_UP, "payment-1", 5 * HELD, 5.5)
    await settled_job(stores)
    now = await balance(stores)
    assert (now.available, now.spent, now.credited) == (5 * HELD - COST, COST, 5 * HELD)


async def test_a_repeated_payment_is_credited_once(
    credit: Credit, credit_store: CreditStore, stores: BillingStores
) -> None:
    replays = [
        Credit(credit_store, stores.jobs).top_up(ORGANISATION, 7, f"payment-{number % 3}") for number in range(18)
    ]
    await asyncio.gather(*replays)
    await credit.top_up(ORGANISATION, 7, "payment-0")
    assert (await balance(stores)).available == 21
    assert [each.number for each in await credit.newest(ORGANISATION)] == [3, 2, 1]


async def test_a_reference_is_unique_per_organisation_and_kind(credit: Credit, stores: BillingStores) -> None:
    await credit.top_up(ORGANISATION, 7, "payment-1")
    await credit.top_up("org-2", 8, "payment-1")
    await credit.promo(ORGANISATION, 9, "payment-1")
    with pytest.raises(ReferenceReused):
        await credit.top_up(ORGANISATION, 8, "payment-1")
    assert (await balance(stores)).credited == 16


async def test_unapplied_entries_are_applied_by_the_next_caller(
    credit: Credit, credit_store: CreditStore, stores: BillingStores
) -> None:
    """The writer died between its two writes."""
    await credit_store.applied(ORGANISATION)
    await credit_store.append(CreditEntry(ORGANISATION, 1, CreditKind.TOP_UP, "payment-1", 7, 5.5))
    assert (await balance(stores)).available == 0
    await credit.apply_pending_since(since=5.0)
    assert (await balance(stores)).available == 7
    await credit_store.append(CreditEntry(ORGANISATION, 2, CreditKind.TOP_UP, "payment-2", 7, 5.5))
    await credit.top_up(ORGANISATION, 7, "payment-2")
    assert (await balance(stores)).available == 14


async def test_an_entry_whose_answer_was_lost_is_credited_once() -> None:
    balances = DictBalanceStore(absence=Absence())
    store = DictCreditStore(balances)
    credit = Credit(store, dict_billing_stores().jobs)
    store.forget_answers = 1
    with pytest.raises(StoreUnavailable):
        await credit.top_up(ORGANISATION, 7, "payment-1")
    await credit.top_up(ORGANISATION, 7, "payment-1")
    assert balances.balances[ORGANISATION].available == 7


async def test_unspent_credit_is_withdrawn_once_per_reference(
    credit: Credit, credit_store: CreditStore, stores: BillingStores
) -> None:
    await credit.promo(ORGANISATION, 5 * HELD, "gift")
    await hold(Billing(stores, price_book()), principal(), [hold_request("job-1")])
    with pytest.raises(CreditNotAvailable):
        await credit.withdraw(ORGANISATION, 5 * HELD, "all")
    calls = [Credit(credit_store, stores.jobs).withdraw(ORGANISATION, HELD, "back", "mistake") for _ in range(8)]
    assert {each.id for each in await asyncio.gather(*calls)} == {f"{ORGANISATION}:withdrawal:back"}
    with pytest.raises(ReferenceReused):
        await credit.withdraw(ORGANISATION, 1, "back")
    await credit.withdraw(ORGANISATION, 3 * HELD, "rest")
    now = await balance(stores)
    assert (now.available, now.withdrawn, now.credited) == (0, 4 * HELD, 5 * HELD)
    found = await credit.newest(ORGANISATION)
    assert sorted((each.kind.value, each.amount, each.reason) for each in found) == [
        ("promo", 5 * HELD, ""),
        ("withdrawal", HELD, "mistake"),
        ("withdrawal", 3 * HELD, ""),
    ]


async def test_withdrawals_and_holds_never_take_the_same_credit(
    credit_store: CreditStore, credit: Credit, stores: BillingStores
) -> None:
    await credit.promo(ORGANISATION, 5 * HELD, "gift")
    billing = Billing(stores, price_book())
    takers = [credit.withdraw(ORGANISATION, HELD, f"w-{number}") for number in range(6)]
    holders = [hold(billing, principal(), [hold_request(f"job-{number}")]) for number in range(6)]
    outcomes = await asyncio.gather(*takers, *holders, return_exceptions=True)
    assert sum(not isinstance(each, Exception) for each in outcomes) == 5
    assert (await balance(stores)).available == 0


async def test_a_withdrawal_whose_writer_died_reaches_the_ledger(
    credit: Credit, credit_store: CreditStore, stores: BillingStores
) -> None:
    await credit.promo(ORGANISATION, 9, "gift")
    entry = CreditEntry(ORGANISATION, 1, CreditKind.WITHDRAWAL, "back", 4, 5.5)
    assert await credit_store.withdraw(entry)
    assert not await credit_store.withdraw(CreditEntry(ORGANISATION, 2, CreditKind.WITHDRAWAL, "more", 4, 5.5))
    assert await credit_store.find(entry.id) is None
    await credit.apply_pending_since(since=5.0)
    assert await credit_store.find(entry.id) == entry
    assert await credit.withdraw(ORGANISATION, 4, "back") == entry
    assert (await balance(stores)).available == 5


@pytest.mark.parametrize("reason", ["x" * 301, "a\nb", "\0"])
async def test_invalid_reasons_are_refused(reason: str) -> None:
    credit = Credit(DictCreditStore(DictBalanceStore(Absence())), dict_billing_stores().jobs)
    for change in (credit.promo, credit.withdraw):
        with pytest.raises(UnacceptableValue):
            await change(ORGANISATION, 1, "r", reason)


async def test_refunds_of_a_job_never_exceed_its_cost(credit: Credit, stores: BillingStores) -> None:
    await credit.top_up(ORGANISATION, HELD, "payment-1")
    await settled_job(stores)
    first = await credit.refund(ORGANISATION, "job-1", COST - 10, "sorry")
    assert await credit.refund(ORGANISATION, "job-1", COST - 10, "sorry") == first
    with pytest.raises(RefundTooLarge, match=r"0\.00000001 USD can be paid back"):
        await credit.refund(ORGANISATION, "job-1", 11, "again")
    await credit.refund(ORGANISATION, "job-1", 10, "rest")
    with pytest.raises(RefundTooLarge):
        await credit.refund(ORGANISATION, "job-1", 1, "twice")
    now = await balance(stores)
    assert (now.available, now.spent) == (HELD, COST)


async def test_concurrent_refunds_do_not_exceed_the_cost(
    credit_store: CreditStore, credit: Credit, stores: BillingStores
) -> None:
    await credit.top_up(ORGANISATION, HELD, "payment-1")
    await settled_job(stores)
    refunds = [Credit(credit_store, stores.jobs).refund(ORGANISATION, "job-1", 100, f"r{n}") for n in range(8)]
    outcomes = await asyncio.gather(*refunds, return_exceptions=True)
    assert sum(isinstance(each, CreditEntry) for each in outcomes) == COST // 100
    assert all(isinstance(each, CreditEntry | RefundTooLarge) for each in outcomes)
    assert (await balance(stores)).credited == HELD + COST // 100 * 100


async def test_only_own_settled_jobs_are_refunded(credit: Credit, stores: BillingStores) -> None:
    await credit.top_up(ORGANISATION, 3 * HELD, "payment-1")
    await settled_job(stores)
    await hold(Billing(stores, price_book()), principal(), [hold_request("running")])
    for organisation, job in (("org-2", "job-1"), (ORGANISATION, "running"), (ORGANISATION, "no such job")):
        with pytest.raises(NoSuchCharge):
            await credit.refund(organisation, job, 1, "refund-1")


@pytest.mark.parametrize("amount", [-1, 0, 0.001, 1e400, "1e3", 2**63, float("nan"), "१२", True])
async def test_invalid_amounts_are_refused(amount: object) -> None:
    credit = Credit(DictCreditStore(DictBalanceStore(Absence())), dict_billing_stores().jobs)
    with pytest.raises(UnacceptableAmount):
        await credit.top_up(ORGANISATION, amount, "payment-1")  # type: ignore[arg-type]


@pytest.mark.parametrize("reference", ["", "x" * 129, "a\r\nb", "é", "\0"])
async def test_invalid_references_are_refused(reference: str) -> None:
    credit = Credit(DictCreditStore(DictBalanceStore(Absence())), dict_billing_stores().jobs)
    with pytest.raises(UnacceptableReference):
        await credit.top_up(ORGANISATION, 1, reference)


async def test_credit_never_exceeds_64_bits(credit: Credit, stores: BillingStores) -> None:
    for number in range(8):
        await credit.promo(ORGANISATION, 10**18, f"gift-{number}")
    with pytest.raises(TooMuchCredit):
        await credit.promo(ORGANISATION, 1, "gift-9")
    assert (await balance(stores)).available == 8 * 10**18
