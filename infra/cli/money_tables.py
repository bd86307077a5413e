"""Formats prices, balances, budgets, credit entries, usage and audit results as tables for the terminal."""

from __future__ import annotations

import time
from collections.abc import Sequence

from rich.markup import escape
from rich.table import Table

from auth_billing.audit.audit_records import AuditReport, Check, Difference
from auth_billing.installation import OrganisationAccount, UsageOfAll, day_of
from auth_billing.money.amounts import format_usd
from auth_billing.money.billing_records import Balance
from auth_billing.money.budgets import BudgetUse
from auth_billing.money.credit import CreditEntry, CreditKind
from auth_billing.prices.pricing import PriceList, RateCard, TokenRate
from router.messages import ServiceClass

OTHERS = "(any other)"
MILLION = 1_000_000


def price_table(prices: PriceList) -> Table:
    """Return a terminal table of prices in USD per million tokens, and of units in USD each.

    Classes priced like `default` have no row.
    """
    title = f"USD per million tokens, version {prices.version}" if prices.version else "USD per million tokens"
    table = _table(title, ["model", "class"], ["input", "cached input", "output", "each"])
    for model, rates in sorted(prices.models.items()):
        _add_rates(table, model, rates)
    if prices.default is not None:
        _add_rates(table, OTHERS, prices.default)
    return table


def balance_table(balance: Balance) -> Table:
    """Return a terminal table of an organisation's credited, spent, held and available USD."""
    table = _table(balance.organisation if balance.is_open else f"{balance.organisation} (closed)", [""], ["USD"])
    held = balance.total_held
    rows = {"credited": balance.credited, "withdrawn": balance.withdrawn, "spent": balance.spent, "held": held}
    for name, amount in rows.items():
        table.add_row(name, format_usd(amount))
    table.add_row("available", format_usd(balance.available))
    return table


def budget_table(budgets: list[BudgetUse]) -> Table:
    """Return a terminal table of this month's use of budgets, in USD; the limit is "-" where no budget is set."""
    table = _table("this month", ["budget"], ["limit", "spent", "held"])
    for each in budgets:
        limit = "-" if each.limit is None else format_usd(each.limit)
        table.add_row(each.name, limit, format_usd(each.spent), format_usd(each.held))
    return table


def credit_table(entries: list[CreditEntry]) -> Table:
    """Return a terminal table of credit entries in USD, latest first."""
    table = _table("credit", ["when (UTC)", "kind", "reference", "job or reason"], ["USD"])
    for each in entries:
        when = time.strftime("%Y-%m-%d %H:%M:%S", time.gmtime(each.at))
        amount = -each.amount if each.kind is CreditKind.WITHDRAWAL else each.amount
        table.add_row(when, each.kind.value, each.reference, each.job or each.reason, format_usd(amount))
    return table


def organisation_table(accounts: Sequence[OrganisationAccount]) -> Table:
    """Return a terminal table of organisations with their available, held and spent USD."""
    table = _table("organisations", ["id", "name", "created (UTC)", ""], ["available", "held", "spent"])
    for each in accounts:
        organisation, balance = each.organisation, each.balance
        held = balance.total_held
        table.add_row(
            organisation.id,
            escape(organisation.name),
            time.strftime("%Y-%m-%d", time.gmtime(organisation.created)),
            "" if balance.is_open else "closed",
            *(format_usd(amount) for amount in (balance.available, held, balance.spent)),
        )
    return table


def usage_table(usage: UsageOfAll) -> Table:
    """Return a terminal table of the usage of all organisations by day and model, and in all."""
    until = usage.complete_until
    when = "nothing yet" if until is None else time.strftime("%Y-%m-%d %H:%M UTC", time.gmtime(until))
    numbers = ["requests", "input tokens", "cached tokens", "output tokens", "USD"]
    table = _table(f"usage of all organisations, complete until {when}", ["day", "model"], numbers)
    sums: dict[tuple[str, str], list[int]] = {}
    for row in usage.rows:
        amounts = [row.requests, row.input_tokens, row.cached_tokens, row.output_tokens, row.cost]
        for key in ((day_of(row), row.model), ("in all", "")):
            sums[key] = [one + other for one, other in zip(sums.get(key, [0] * len(amounts)), amounts, strict=True)]
    for (day, model), (*counts, cost) in sorted(sums.items()):
        table.add_row(day, escape(model), *(f"{count:,}" for count in counts), format_usd(cost))
    return table


def check_table(report: AuditReport) -> Table:
    """Return a terminal table of an audit's checks with the number of differences that each found."""
    table = _table(
        f"{report.accounts} accounts, {report.jobs} jobs, {report.rows} rows of the ledger", ["differs if"], [""]
    )
    counts = report.counts()
    for check in Check:
        table.add_row(check.value, str(counts[check]) if counts[check] else "-")
    return table


def difference_table(differences: Sequence[Difference]) -> Table:
    """Return a terminal table of the differences between balances, ledger and jobs that an audit found."""
    table = _table("differences", ["what", "organisation", "of", "numbers (nano-USD)"], [])
    for each in differences:
        table.add_row(each.check.value, each.organisation, each.subject, each.detail)
    return table


def _table(title: str, texts: list[str], numbers: list[str]) -> Table:
    table = Table(title=title, title_justify="left")
    for text in texts:
        table.add_column(text, overflow="fold")
    for number in numbers:
        table.add_column(number, justify="right", no_wrap=True)
    return table


def _add_rates(table: Table, model: str, rates: RateCard) -> None:
    default_rate = rates[ServiceClass.DEFAULT]
    table.add_row(model, ServiceClass.DEFAULT.value, *_cells(default_rate))
    for service_class, rate in rates.items():
        if rate != default_rate:
            table.add_row("", service_class.value, *_cells(rate))


def _cells(rate: TokenRate) -> list[str]:
    tokens = [format_usd(each * MILLION) for each in (rate.input, rate.cached_input, rate.output)]
    return [*tokens, "\n".join(f"{escape(unit)} {format_usd(price)}" for unit, price in rate.units.items())]
