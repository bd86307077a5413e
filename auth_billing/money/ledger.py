"""Builds the double-entry ledger entry of a settled job, unstored: the cost moves from the customer to revenue."""

from __future__ import annotations

from auth_billing.money.billing_records import Charge, LedgerEntry

REVENUE = "revenue"
SETTLE = "settle"


def customer_account(organisation: str) -> str:
    """Return the name of an organisation's ledger account, whose balance is the organisation's unspent credit."""
    return f"customer:{organisation}"


def settlement_entry(charge: Charge) -> LedgerEntry:
    """Return the ledger entry of a settled job that cost something, from the customer's account to revenue.

    The entry is not stored here.
    """
    job = charge.job
    return LedgerEntry(
        id=f"{job.id}:settle:0",
        organisation=job.organisation,
        debit=customer_account(job.organisation),
        credit=REVENUE,
        amount=charge.cost,
        kind=SETTLE,
        at=charge.final.at,
        job=job.id,
        usage=charge.final.usage,
        price_version=job.price.version,
        parts=charge.final.parts,
    )
