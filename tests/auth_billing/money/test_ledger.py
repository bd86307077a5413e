"""The ledger entry of a settled job: from its customer's account to revenue, under an id derived from the job."""

from __future__ import annotations

from auth_billing.money.billing_records import Charge
from auth_billing.money.ledger import customer_account, settlement_entry
from router.messages import Usage
from tests.auth_billing.money.test_usage_reports import job


def test_a_settlement_moves_the_cost_from_the_customer_to_revenue() -> None:
    settled = job(1, at=5.0, usage=Usage(prompt_tokens=10))
    assert settled.final is not None
    entry = settlement_entry(Charge(settled, 7, settled.final))
    assert (entry.debit, entry.credit, entry.amount) == (customer_account(settled.organisation), "revenue", 7)
    assert (entry.kind, entry.at, entry.job, entry.usage) == ("settle", 5.0, settled.id, settled.final.usage)
    assert entry.price_version == settled.price.version


def test_the_entry_of_a_job_has_the_same_id_whatever_is_charged() -> None:
    settled = job(1, at=5.0, usage=Usage(prompt_tokens=10))
    assert settled.final is not None
    ids = {settlement_entry(Charge(settled, cost, settled.final)).id for cost in (1, 2)}
    assert ids == {f"{settled.id}:settle:0"}
