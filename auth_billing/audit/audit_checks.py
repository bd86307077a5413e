"""Checks the invariants of the books, as plain functions: each yields the differences in one document or between two.

A transient difference, from a settlement between two writes, is filtered by the auditor.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from auth_billing.audit.audit_records import Check, Difference, LedgerSums, RawLedgerEntry
from auth_billing.money.billing_records import Balance, JobRecord, JobState
from auth_billing.money.holds import ORGANISATION_BUDGET
from auth_billing.money.ledger import REVENUE, SETTLE, customer_account
from router.messages import Outcome, Usage
from router.timings import Timings
from router.usage_arithmetic import NO_USAGE, JobUsage, exceeds, merged

CREDIT_KINDS = {"topup": "cash", "promo": "promo", "refund": "refunds"}
"""Ledger account that each kind of credit comes from."""
DEBIT_KINDS: Mapping[object, str] = {SETTLE: REVENUE, "withdrawal": "withdrawals"}
"""Ledger account that each kind of entry moves a customer's credit to."""


def check_account(balance: Balance) -> Iterator[Difference]:
    """Yield the contradictions within one organisation's account: negative amounts, sums that differ.

    These invariants hold at every moment, since one update changes the whole document.
    """
    name = balance.organisation
    held = balance.total_held
    leases = [lease.amount for lease in balance.leases.values()]
    least = min(balance.available, balance.spent, held, balance.credited, balance.withdrawn, *leases)
    if least < 0:
        yield Difference(Check.NOT_NEGATIVE, name, name, f"{least}")
    total = balance.available + held + balance.spent + balance.withdrawn
    if balance.credited != total:
        yield Difference(Check.ACCOUNT_ADDS_UP, name, name, f"credited {balance.credited}, there is {total}")
    used = sum(month.get(ORGANISATION_BUDGET, 0) for month in balance.used.values())
    if used > held + balance.spent:  # it may be less: old months are forgotten
        yield Difference(Check.BUDGETS_ADD_UP, name, name, f"used {used}, held and spent {held + balance.spent}")
    for month, names in balance.used.items():
        for budget, amount in names.items():
            holding = sum(h.amount for h in balance.held.values() if h.month == month and budget in h.budgets)
            if amount < holding:
                yield Difference(Check.BUDGETS_ADD_UP, name, f"{month} {budget}", f"used {amount}, held {holding}")


def check_holds(balance: Balance, jobs: Mapping[str, JobRecord]) -> Iterator[Difference]:
    """Yield the account's holds (credit leases excluded) whose job is unknown, settled or has another hold.

    Read `jobs`, the jobs of these holds by id, after the account.
    """
    for job_id, hold in balance.held.items():
        if hold.gateway:
            continue
        job = jobs.get(job_id)
        if job is None or job.state is JobState.SETTLED:
            yield Difference(Check.HOLD_HAS_JOB, balance.organisation, job_id, f"{hold.amount} held")
        elif (job.organisation, job.hold) != (balance.organisation, hold.amount):
            detail = f"{hold.amount} held, the job of {job.organisation} says {job.hold}"
            yield Difference(Check.HOLD_IS_JOBS, balance.organisation, job_id, detail)


def check_leases(balance: Balance, now: float, timings: Timings) -> Iterator[Difference]:
    """Yield a difference for each credit lease not renewed or returned in time, as of `now` (Unix seconds)."""
    for id, lease in balance.leases.items():
        if lease.at < now - timings.settlement_overdue_after:
            detail = f"{lease.amount} leased to {lease.gateway} {now - lease.at:.0f} s ago"
            yield Difference(Check.LEASE_IN_TIME, balance.organisation, id, detail)


def check_ledger_sums(before: Balance, sums: LedgerSums, pending: int, after: Balance) -> Iterator[Difference]:
    """Yield differences between an account, read before and after the sums, and the ledger's sums.

    `pending`: nano-USD charged to the account that may not be in the ledger yet.

    An account is charged before the ledger has the entry. So all that was spent before is in the ledger or pending, and
    all that is in the ledger was spent after: exact when nothing is pending, and never a false alarm otherwise.
    """
    name = after.organisation
    if not before.spent <= sums.settled + pending or not sums.settled <= after.spent:
        detail = f"spent {after.spent}, in the ledger {sums.settled}, on its way there {pending}"
        yield Difference(Check.SPENT_IS_LEDGER, name, name, detail)
    if (sums.credits, sums.credited) != (before.credits, before.credited):
        detail = f"{before.credits} entries of {before.credited}, in the ledger {sums.credits} of {sums.credited}"
        yield Difference(Check.CREDIT_IS_LEDGER, name, name, detail)
    if sums.withdrawn != before.withdrawn:  # it may be on its way to the ledger: the auditor looks again
        detail = f"withdrawn {before.withdrawn}, in the ledger {sums.withdrawn}"
        yield Difference(Check.WITHDRAWN_IS_LEDGER, name, name, detail)


def check_pending_credit(organisation: str, sums: LedgerSums, now: float, timings: Timings) -> Iterator[Difference]:
    """Yield a difference if a credit entry in an organisation's ledger was not applied to the account in time.

    `sums`: the ledger's sums, with the time of the oldest waiting entry; `now`: Unix seconds.
    """
    if sums.oldest_waiting is not None and sums.oldest_waiting < now - timings.credit_overdue_after:
        yield Difference(Check.CREDIT_TAKEN_IN, organisation, organisation, f"since {sums.oldest_waiting:.0f}")


def check_job(job: JobRecord, now: float, timings: Timings) -> Iterator[Difference]:
    """Yield a difference if a job is not settled in time by `now` (Unix seconds), or has a wrong cost.

    The right cost is the price of the job's usage, up to its hold.
    """
    if job.state is not JobState.SETTLED and job.deadline + timings.settlement_overdue_after < now:
        late = now - job.deadline
        yield Difference(Check.HOLD_IN_TIME, job.organisation, job.id, f"{job.state}, {late:.0f} s after its deadline")
    if job.state is JobState.HELD:
        return
    if job.final is None or job.cost is None:
        yield Difference(Check.READABLE, job.organisation, job.id, f"{job.state} without a cost")
        return
    answer, parts = job.shares(JobUsage(job.final.usage, job.final.parts))
    right = answer + sum(parts)
    if job.cost != right:
        yield Difference(Check.COST_IS_PRICE, job.organisation, job.id, f"cost {job.cost}, should be {right}")
    elif job.final.part_costs != parts:
        detail = f"parts cost {list(job.final.part_costs)}, should be {list(parts)}"
        yield Difference(Check.COST_IS_PRICE, job.organisation, job.id, detail)


def check_hold_of_job(job: JobRecord, balance: Balance | None, now: float, timings: Timings) -> Iterator[Difference]:
    """Yield a difference if an account (`None`: missing) lacks the hold of a job that is `HELD`.

    Read the account after the job.
    """
    if job.state is not JobState.HELD or job.created > now - timings.missing_hold_grace:
        return
    if balance is None or job.id not in balance.held:
        yield Difference(Check.JOB_HAS_HOLD, job.organisation, job.id, f"{job.hold} should be held")


def check_entry_of_job(job: JobRecord, row: RawLedgerEntry | None) -> Iterator[Difference]:
    """Yield differences between a settled job's cost and its ledger entry (`None`: missing), read after the job."""
    if row is None:
        if job.state is JobState.SETTLED and job.cost:
            yield Difference(Check.JOB_IN_LEDGER, job.organisation, job.id, f"cost {job.cost}")
        return
    if job.state is JobState.HELD or job.final is None:
        yield Difference(
            Check.LEDGER_IS_JOBS, job.organisation, job.id, f"charged {row.amount}, the job is {job.state}"
        )
        return
    charged = (row.organisation, row.amount, row.usage, row.parts, row.price_version)
    said = (job.organisation, job.cost, job.final.usage, job.final.parts, job.price.version)
    for what, one, other in zip(("organisation", "amount", "usage", "parts", "price"), charged, said, strict=True):
        if one != other:
            detail = f"{what}: {one} in the ledger, {other} in the job"
            yield Difference(Check.LEDGER_IS_JOBS, job.organisation, job.id, detail)


def check_usage_of_job(
    job: JobRecord, recorded: Mapping[str, JobUsage], now: float, timings: Timings
) -> Iterator[Difference]:
    """Yield a difference if a finished job is charged for more than its workers recorded (`recorded`, by attempt).

    A worker that dies after its terminal reply leaves no record: what its replies reported then counts instead. Skipped
    are free jobs, failed ones (a crashed worker sends no record) and recent ones (a record may arrive late).
    """
    final = job.final
    if final is None or not job.cost or final.outcome is not Outcome.FINISHED:
        return
    if final.at > now - timings.settlement_overdue_after:
        return
    worked = list(recorded.values())
    if final.reported is not None and final.reported.attempt not in recorded:
        worked.append(JobUsage(final.reported.usage, final.reported.parts))
    completion = sum(each.answer.completion_tokens for each in worked)
    prompt = max((each.answer.prompt_tokens for each in worked), default=0)
    if final.usage.completion_tokens > completion or final.usage.prompt_tokens > prompt:
        detail = f"charged {_tokens(final.usage)}, worked {prompt} + {completion} tokens"
        yield Difference(Check.WORKED, job.organisation, job.id, detail)
    checks = () if final.reported is None else final.reported.checks
    by_model = {part.model: part.usage for part in merged([*(part for each in worked for part in each.parts), *checks])}
    for part in final.parts:
        if exceeds(part.usage, by_model.get(part.model, NO_USAGE)):
            detail = f"charged {part.usage} of {part.model}, worked {by_model.get(part.model)}"
            yield Difference(Check.WORKED, job.organisation, job.id, detail)


def check_entry(row: RawLedgerEntry) -> Iterator[Difference]:
    """Yield a difference unless a stored ledger entry moves a positive amount between the two accounts of its kind."""
    own = customer_account(row.organisation)
    expected = (own, DEBIT_KINDS[row.kind]) if row.kind in DEBIT_KINDS else (CREDIT_KINDS.get(str(row.kind)), own)
    amount = row.amount
    if (row.debit, row.credit) != expected or not isinstance(amount, int) or isinstance(amount, bool) or amount <= 0:
        detail = f"{row.kind}: {row.amount} from {row.debit} to {row.credit}"
        yield Difference(Check.ROW_BALANCES, row.organisation, row.id, detail)
    if row.kind == SETTLE and row.id != f"{row.job}:settle:0":
        yield Difference(Check.SETTLED_ONCE, row.organisation, row.id, f"job {row.job}, {row.amount}")


def check_job_of_entry(row: RawLedgerEntry, jobs: Mapping[str, JobRecord]) -> Iterator[Difference]:
    """Yield a difference if the job that a ledger entry names is missing in `jobs`, read for the entries."""
    if row.job is None and row.kind != SETTLE:
        return
    job = jobs.get(row.job or "")
    if job is None or job.organisation != row.organisation:
        yield Difference(Check.ROW_HAS_JOB, row.organisation, row.id, f"job {row.job}, {row.amount}")


def _tokens(usage: Usage) -> str:
    return f"{usage.prompt_tokens} + {usage.completion_tokens}"
