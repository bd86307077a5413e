"""Commands `headrace credit ...`, `budget`, `limits` and `audit`: options and output.

Command line options and output; each command imports its implementation (`money_commands.py`) only when it is run, so
that others start fast.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, Annotated, TypeVar

import typer

from infra.cli.store_command import MongoUrl, console, print_table, run_command
from infra.home import environment
from infra.home.settings import LauncherSettings

if TYPE_CHECKING:
    from auth_billing.money.credit import CreditEntry, CreditKind
    from infra.cli.money_commands import MoneyCommands

PANEL = "Money"
MOST_SHOWN = 200
ResultT = TypeVar("ResultT")

credit = typer.Typer(help="Credit of an organisation: give, take, refund, show.", no_args_is_help=True)

Organisation = Annotated[str, typer.Argument(help="Its id, as org-..., or `development`.")]
Usd = Annotated[str, typer.Argument(metavar="USD", help="As 12.50, exact to nine digits after the point.")]
Reason = Annotated[str, typer.Option(help="Why, for people; the organisation sees it.", show_default=False)]
Reference = Annotated[
    str | None,
    typer.Option(help="Your reference of the entry; a repeated reference changes nothing.", show_default=False),
]


def register(app: typer.Typer) -> None:
    """Add the commands `credit ...`, `budget`, `limits` and `audit` to `app`, the `headrace` command line."""
    app.command(rich_help_panel=PANEL)(budget)
    app.command(rich_help_panel=PANEL)(limits)
    app.command(rich_help_panel=PANEL)(audit)
    app.add_typer(credit, name="credit", rich_help_panel=PANEL)


def budget(
    organisation: Organisation,
    usd: Annotated[
        str | None,
        typer.Argument(metavar="USD", help="Monthly amount; without it the budgets are shown.", show_default=False),
    ] = None,
    *,
    project: Annotated[str | None, typer.Option(help="Budget of this project.", show_default=False)] = None,
    key: Annotated[str | None, typer.Option(help="Budget of this API key (key_...).", show_default=False)] = None,
    remove: Annotated[bool, typer.Option("--remove", help="Remove the budget.")] = False,
    mongodb_url: MongoUrl = None,
) -> None:
    """Show or set monthly budgets of an organisation, a project or a key."""
    from infra.cli.money_tables import budget_table  # noqa: PLC0415

    if project is not None and key is not None:
        raise typer.BadParameter("a budget is of a project or of a key, not of both")
    if remove and usd is not None:
        raise typer.BadParameter("an amount, or --remove")
    if remove or usd is not None:
        run_money_command(mongodb_url, lambda money: money.set_budget(organisation, usd, project=project, key=key))
    shown = run_money_command(mongodb_url, lambda money: money.statement(organisation))
    print_table(budget_table(list(shown.budgets)))


def limits(
    organisation: Organisation,
    limits: Annotated[
        str | None,
        typer.Argument(
            help="As `600 requests/minute, 64 concurrent`; without them they are shown.", show_default=False
        ),
    ] = None,
    *,
    project: Annotated[str | None, typer.Option(help="Limits of this project.", show_default=False)] = None,
    model: Annotated[
        str | None, typer.Option(help="For this model, in all projects or in --project.", show_default=False)
    ] = None,
    key: Annotated[str | None, typer.Option(help="Limits of this API key (key_...).", show_default=False)] = None,
    person: Annotated[
        str | None,
        typer.Option(
            help="Limits of this user (address or id) or service account (id): all keys and chats.", show_default=False
        ),
    ] = None,
    remove: Annotated[bool, typer.Option("--remove", help="Remove the limits: the defaults apply.")] = False,
    mongodb_url: MongoUrl = None,
) -> None:
    """Show or set the operator's rate limits of an organisation, a project, a model, a key or a person.

    They replace the defaults (HEADRACE_LIMITS_PER_...), and the organisation's administrators can't exceed them.
    Limits of a model that is not served yet are kept, with a note.
    """
    subjects = [key, person, project or model]
    if sum(each is not None for each in subjects) > 1:
        raise typer.BadParameter("limits are of a key, of a person, or of a project or model")
    if remove and limits is not None:
        raise typer.BadParameter("limits, or --remove")
    console.print(
        run_money_command(
            mongodb_url,
            lambda money: money.limits(
                organisation, limits, project=project, model=model, key=key, person=person, remove=remove
            ),
        )
    )
    if model is not None and not remove:
        _note_unknown(model, mongodb_url)


def _note_unknown(model: str, mongodb_url: str | None) -> None:
    """Print a note to standard error if no worker that can be seen from here serves `model`, and it has no price."""
    from infra.cli.served_models import served_models, unknown_model_note  # noqa: PLC0415

    if model in run_money_command(mongodb_url, lambda money: money.prices()).models:
        return
    if note := unknown_model_note(model, served_models(environment.load(LauncherSettings).folder)):
        typer.echo(f"note: {note}. Its limits hold as soon as a worker serves it.", err=True)


def audit(mongodb_url: MongoUrl = None) -> None:
    """Check that balances, ledger and jobs agree, also while the platform runs; exit with 1 if not."""
    from infra.cli.money_tables import check_table, difference_table  # noqa: PLC0415

    report = run_money_command(mongodb_url, lambda money: money.audit())
    print_table(check_table(report))
    if report.differences:
        print_table(difference_table(report.differences[:MOST_SHOWN]))
        console.print(f"{len(report.differences)} differences")
        raise typer.Exit(1)
    console.print("no difference")


@credit.command("show")
def show_credit(organisation: Organisation, mongodb_url: MongoUrl = None) -> None:
    """Show an organisation's balance and its latest credit entries."""
    from infra.cli.money_tables import balance_table, credit_table  # noqa: PLC0415

    shown = run_money_command(mongodb_url, lambda money: money.statement(organisation))
    print_table(balance_table(shown.balance))
    print_table(credit_table(list(shown.entries)))


@credit.command()
def grant(
    organisation: Organisation,
    usd: Usd,
    *,
    reference: Reference = None,
    reason: Reason = "",
    mongodb_url: MongoUrl = None,
) -> None:
    """Give an organisation promotional credit; with a reference only once."""
    from auth_billing.money.credit import CreditKind  # noqa: PLC0415

    _change(CreditKind.PROMO, organisation, usd, (reference, reason), mongodb_url)


@credit.command()
def withdraw(
    organisation: Organisation,
    usd: Usd,
    *,
    reference: Reference = None,
    reason: Reason = "",
    mongodb_url: MongoUrl = None,
) -> None:
    """Take unspent credit from an organisation; what running requests hold stays."""
    from auth_billing.money.credit import CreditKind  # noqa: PLC0415

    _change(CreditKind.WITHDRAWAL, organisation, usd, (reference, reason), mongodb_url)


@credit.command("top-up")
def top_up(
    organisation: Organisation,
    usd: Usd,
    *,
    reference: Reference = None,
    reason: Reason = "",
    mongodb_url: MongoUrl = None,
) -> None:
    """Record an organisation's payment, which adds to its credit."""
    from auth_billing.money.credit import CreditKind  # noqa: PLC0415

    _change(CreditKind.TOP_UP, organisation, usd, (reference, reason), mongodb_url)


@credit.command()
def refund(
    organisation: Organisation,
    job: Annotated[str, typer.Argument(help="The id of the answer, as chatcmpl-...")],
    usd: Annotated[
        str | None, typer.Argument(metavar="USD", help="Part of its cost; by default all.", show_default=False)
    ] = None,
    *,
    reference: Reference = None,
    mongodb_url: MongoUrl = None,
) -> None:
    """Refund the cost of a job, or a part, to its organisation's credit."""
    _print_entry(run_money_command(mongodb_url, lambda money: money.refund(organisation, job, usd, reference)))


@credit.command()
def close(organisation: Organisation, *, mongodb_url: MongoUrl = None) -> None:
    """Close an organisation's account: new requests are refused, running ones are finished and settled."""
    run_money_command(mongodb_url, lambda money: money.set_open(organisation, to=False))
    console.print(f"{organisation} is closed")


@credit.command()
def reopen(organisation: Organisation, *, mongodb_url: MongoUrl = None) -> None:
    """Reopen an organisation's closed account, so that its requests are accepted again."""
    run_money_command(mongodb_url, lambda money: money.set_open(organisation, to=True))
    console.print(f"{organisation} is open")


def _change(
    kind: CreditKind, organisation: str, usd: str, why: tuple[str | None, str], mongodb_url: str | None
) -> None:
    _print_entry(run_money_command(mongodb_url, lambda money: money.change_credit(kind, organisation, usd, *why)))


def _print_entry(entry: CreditEntry) -> None:
    from auth_billing.money.amounts import format_usd  # noqa: PLC0415

    way = "from" if entry.kind == "withdrawal" else "to"
    amount = format_usd(entry.amount)
    console.print(f"{entry.kind}: {amount} USD {way} {entry.organisation} (reference {entry.reference})")


def run_money_command(mongodb_url: str | None, work: Callable[[MoneyCommands], Awaitable[ResultT]]) -> ResultT:
    """Run `work` with the money commands of a store, and return its result; errors as in `run_command`.

    Without a URL it is the store of the launcher.
    """
    from auth_billing.settings import BillingSettings  # noqa: PLC0415
    from infra.accounts.account_services import open_store  # noqa: PLC0415
    from infra.cli.money_commands import MoneyCommands  # noqa: PLC0415

    url = environment.load(BillingSettings, mongodb_url=mongodb_url).mongodb_url
    home = environment.load(LauncherSettings).folder
    return run_command(open_store(home, url), lambda connection: work(MoneyCommands(connection)))
