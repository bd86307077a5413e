"""What is written into the ledger for a job. Double entry: each row moves an amount from one account to another."""

from __future__ import annotations

from auth_billing.money.books import Charge, Posting

REVENUE = "revenue"
SETTLE = "settle"


def customer(organisation: str) -> str:
    """The ledger's account of an organisation: credit it has paid in and not spent."""
    return f"customer:{organisation}"


def settlement_posting(charge: Charge) -> Posting:
    """The row of a job that cost something: from its customer to revenue."""
    job = charge.job
    return Posting(
        id=f"{job.id}:settle:0",
        organisation=job.organisation,
        debit=customer(job.organisation),
        credit=REVENUE,
        amount=charge.cost,
        kind=SETTLE,
        at=charge.final.at,
        job=job.id,
        usage=charge.final.usage,
        price_version=job.price.version,
    )
