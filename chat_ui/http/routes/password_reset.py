"""HTTP routes of forgotten passwords: `/api/password-reset`; for administrators `/api/people/{user}/password-reset`."""

from __future__ import annotations

from fastapi import APIRouter, Request, Response

from auth_billing.audit_log import Event
from auth_billing.people.account_events import record_account_event
from auth_billing.people.reset_mails import ResetRequest
from chat_ui.http.access_control import Caller, SameOrigin, public
from chat_ui.http.request_bodies import EmptyJson, ForgottenPasswordJson, NewPasswordJson
from chat_ui.http.responses import no_content, schema_response
from chat_ui.http.schemas.people import PasswordResetLink, PasswordResetOptions
from chat_ui.services import audit_actor, client_address, record_event, services_of

router = APIRouter()


@router.get("/password-reset", response_model=PasswordResetOptions)
@public
async def read_password_reset_options(request: Request) -> Response:
    """Return whether the installation can mail password reset links (`GET /api/password-reset`)."""
    return schema_response(PasswordResetOptions(by_mail=services_of(request).reset_mails.enabled))


@router.post("/password-reset/mail", status_code=204)
@public
async def mail_reset_link(request: Request, _same_origin: SameOrigin, body: ForgottenPasswordJson) -> Response:
    """Mail a password reset link, if the address has an account (`POST /api/password-reset/mail`).

    Response and duration are equal if the address has none.
    """
    asked = ResetRequest(body.email, client_address(request), body.language)
    await services_of(request).reset_mails.request(asked)
    return no_content()


@router.post("/password-reset", status_code=204)
@public
async def reset_password(request: Request, _same_origin: SameOrigin, body: NewPasswordJson) -> Response:
    """Set a new password by a reset link, once, and end all the person's sessions (`POST /api/password-reset`).

    No session is opened.
    """
    services = services_of(request)
    user = await services.access.password_reset.use(body.token, body.password, client_address(request))
    actor = audit_actor(request, user)
    await record_account_event(services.audit, services.access.members.memberships, user, Event.PASSWORD_RESET, actor)
    return no_content()


@router.post("/people/{user}/password-reset", response_model=PasswordResetLink, status_code=201)
async def make_reset_link(request: Request, user: str, caller: Caller, _empty: EmptyJson) -> Response:
    """Make and return a password reset link for a member (`POST /api/people/{user}/password-reset`).

    The member must have a lower role and be in no other organisation; earlier links become void.
    """
    links = services_of(request).access.reset_links
    member, token = await links.make_for_member(caller.actor, user)
    details = {"email": member.email, "by": "administrator"}
    await record_event(request, caller, Event.PASSWORD_RESET_CREATED, member.id, details=details)
    return schema_response(PasswordResetLink(token=token), 201)
