"""HTTP routes of the rate limits that an organisation sets below the operator's: `/api/admin/rate_limits`."""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter, Query, Request, Response

from auth_billing.audit_log import Event
from auth_billing.errors import NoSuchRecord
from auth_billing.people.sessions import BrowserSession
from auth_billing.rate_limits.limit_registry import LimitSetting
from auth_billing.rate_limits.limits import (
    UNLIMITED,
    Limits,
    Subject,
    key_subject,
    organisation_model_subject,
    organisation_subject,
    person_subject,
    project_subject,
)
from chat_ui.http.access_control import Admin
from chat_ui.http.responses import schema_response
from chat_ui.http.routes.admin.keys import find_key
from chat_ui.http.schemas.rate_limits import RateLimitRow, RateLimitRows, RateLimitsJson, RateLimitsQuery
from chat_ui.http.schemas.usage import LimitValues
from chat_ui.http.usage_reports import limit_values
from chat_ui.services import record_event, services_of

router = APIRouter(prefix="/rate_limits")

ORGANISATION = "organisation"


@router.get("", response_model=RateLimitRows)
async def list_rate_limits(request: Request, caller: Admin, query: Annotated[RateLimitsQuery, Query()]) -> Response:
    """List the rate limits of the organisation, its models and its active projects, or of one subject.

    Route: `GET /api/admin/rate_limits`.
    """
    if query.subject is None:
        labels = await _shared(request, caller)
    else:
        labels = {query.subject: await _label(request, caller, query.subject, changing=False)}
    subjects = [_subject(caller, name) for name in labels]
    settings = await services_of(request).admin.limits.settings_of(subjects)
    rows = [_row(*named, setting) for named, setting in zip(labels.items(), settings, strict=True)]
    return schema_response(RateLimitRows(limits=rows))


@router.post("", response_model=RateLimitRow)
async def set_rate_limits(request: Request, caller: Admin, body: RateLimitsJson) -> Response:
    """Set and return all rate limits of one subject (`POST /api/admin/rate_limits`).

    They are in force within five seconds at every gateway.
    """
    label = await _label(request, caller, body.subject, changing=True)
    subject, registry = _subject(caller, body.subject), services_of(request).admin.limits
    wanted = body.model_dump(exclude={"subject"})
    await registry.change(
        subject, Limits(**{name: UNLIMITED if value is None else value for name, value in wanted.items()})
    )
    event = Event.RATE_LIMIT_UPDATED if any(wanted.values()) else Event.RATE_LIMIT_DELETED
    await record_event(request, caller, event, body.subject, details=wanted)
    (setting,) = await registry.settings_of([subject])
    return schema_response(_row(body.subject, label, setting))


async def _shared(request: Request, caller: BrowserSession) -> dict[str, str]:
    """Return the display names of the organisation, its models and its active projects, by subject name."""
    admin = services_of(request).admin
    projects = await admin.administration.projects.all(caller.organisation)
    return (
        {ORGANISATION: ""}
        | {f"model:{each.name}": each.name for each in admin.fleet.models()}
        | {f"project:{each.id}": each.name for each in projects if each.archived is None}
    )


async def _label(request: Request, caller: BrowserSession, name: str, *, changing: bool) -> str:
    """Return the display name of a subject that exists in the caller's organisation.

    Raises:
        NoSuchRecord: there is no such subject.
        NotPermitted: the limits of an owner or an administrator are to be changed, and the caller is no owner.
    """
    kind, _, id_ = name.partition(":")
    if kind == "key":
        return (await find_key(request, caller, id_)).name
    if kind == "person":
        member = await services_of(request).access.members.find(caller.organisation, id_)
        if changing:
            caller.actor.require_limits_of(member.role)
        return member.user.name
    label = (await _shared(request, caller)).get(name)
    if label is None:
        raise NoSuchRecord(f"no subject {name}")
    return label


def _subject(caller: BrowserSession, name: str) -> Subject:
    kind, _, id_ = name.partition(":")
    match kind:
        case "key":
            return key_subject(id_, "")
        case "person":
            return person_subject(caller.organisation, id_)
        case "project":
            return project_subject(id_)
        case "model":
            return organisation_model_subject(caller.organisation, id_)
    return organisation_subject(caller.organisation)


def _row(subject: str, label: str, setting: LimitSetting) -> RateLimitRow:
    own, ceiling = (LimitValues(**limit_values(each)) for each in (setting.own, setting.ceiling))
    return RateLimitRow(subject=subject, label=label, own=own, ceiling=ceiling)
