"""Command `headrace model-access` (options and output): shows or sets which models members of an organisation may use.

The command imports its implementation (`model_access_commands.py`) only when it is run, so that others start fast.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Annotated

import typer
from rich.table import Table

from infra.cli.store_command import MongoUrl, print_table, run_with_accounts

if TYPE_CHECKING:
    from auth_billing.access.model_access import ModelPolicy
    from auth_billing.people.model_policies import PolicySubject

PANEL = "People and keys"


def register(app: typer.Typer) -> None:
    """Add the command `model-access` to `app`, the `headrace` command line."""
    app.command("model-access", rich_help_panel=PANEL)(model_access)


def model_access(
    organisation: Annotated[str, typer.Argument(help="Its id, as org-..., or `development`.")],
    *,
    project: Annotated[str | None, typer.Option(help="Models of this project.", show_default=False)] = None,
    role: Annotated[str | None, typer.Option(help="Of members with this role: admin, member, viewer.")] = None,
    user: Annotated[str | None, typer.Option(help="Of this member, by id or e-mail address.")] = None,
    allow: Annotated[list[str] | None, typer.Option(help="Permit only this model; may be repeated.")] = None,
    deny: Annotated[list[str] | None, typer.Option(help="Forbid this model; may be repeated.")] = None,
    remove: Annotated[bool, typer.Option("--remove", help="Permit every model again.")] = False,
    mongodb_url: MongoUrl = None,
) -> None:
    """Show or set which models a project, a role or a member may use. Owners can't be restricted.

    A request may use a model that its key, its project, its user's role and its user may use. A change holds within
    five seconds.
    """
    from auth_billing.access.model_access import UNRESTRICTED, ModelPolicy, PolicyMode  # noqa: PLC0415
    from auth_billing.people.model_policies import PolicySubject  # noqa: PLC0415
    from infra.cli.model_access_commands import ModelAccessCommands  # noqa: PLC0415

    subjects = [
        *([] if project is None else [PolicySubject("project", project)]),
        *([] if role is None else [PolicySubject("role", role)]),
        *([] if user is None else [PolicySubject("user", user)]),
    ]
    policies = [
        *([ModelPolicy(PolicyMode.ALLOW, frozenset(allow))] if allow else []),
        *([ModelPolicy(PolicyMode.DENY, frozenset(deny))] if deny else []),
        *([UNRESTRICTED] if remove else []),
    ]
    if len(subjects) > 1 or len(policies) > 1 or len(subjects) != len(policies):
        raise typer.BadParameter("one of --project, --role, --user with one of --allow, --deny, --remove; or none")
    for subject, policy in zip(subjects, policies, strict=True):
        run_with_accounts(mongodb_url, lambda access: ModelAccessCommands(access).set(organisation, subject, policy))  # noqa: B023
    print_table(_table(run_with_accounts(mongodb_url, lambda access: ModelAccessCommands(access).all(organisation))))


def _table(policies: Mapping[PolicySubject, ModelPolicy]) -> Table:
    table = Table(box=None)
    for column in ("of", "id", "list", "models"):
        table.add_column(column, overflow="fold")
    for subject, policy in policies.items():
        table.add_row(subject.kind, subject.id, policy.mode.value, ", ".join(sorted(policy.models)) or "none")
    return table
