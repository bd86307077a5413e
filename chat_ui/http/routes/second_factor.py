"""HTTP routes of the second factor: at sign-in, of the caller, and of members (`/api/people/{user}/second-factor`)."""

from __future__ import annotations

from fastapi import APIRouter, Request, Response

from auth_billing.audit_log import AuditActor, Event
from auth_billing.people.account_events import record_account_event
from auth_billing.people.second_factor_sign_in import WrongCode
from auth_billing.people.sessions import BrowserSession
from chat_ui.http.access_control import Caller, SameOrigin, public
from chat_ui.http.audit_events import failures_recorded, record_membership
from chat_ui.http.provider_events import check_with_provider
from chat_ui.http.request_bodies import (
    CodeJson,
    CurrentPasswordJson,
    DisableSecondFactorJson,
    EmptyJson,
    SecondFactorJson,
)
from chat_ui.http.responses import no_content, schema_response
from chat_ui.http.routes.session import session_response, set_session_cookies
from chat_ui.http.schemas.people import Me, NewSecondFactor, RecoveryCodes, SecondFactorStatus
from chat_ui.services import audit_actor, client_address, record_event, services_of

router = APIRouter()


@router.post("/session/second-factor", response_model=Me)
@public
async def complete_sign_in(request: Request, _same_origin: SameOrigin, body: SecondFactorJson) -> Response:
    """Complete a sign-in by a code of the authenticator app or a recovery code (`POST /api/session/second-factor`).

    Opens a session and sets its cookies.
    """
    services, address = services_of(request), client_address(request)
    try:
        signed_in, challenge = await services.access.second_factor_sign_in.complete(body.challenge, body.code, address)
    except WrongCode as error:
        whose = error.challenge
        actor, details = AuditActor(user=whose.user, address=address), {"second_factor": True}
        await services.audit.record(whose.organisation, Event.LOGIN_FAILED, whose.user, actor, details=details)
        raise
    if challenge.invitation:
        await record_membership(request, signed_in.session)
    event = Event.INVITE_ACCEPTED if challenge.invitation else Event.LOGIN_SUCCEEDED
    return await session_response(request, services, signed_in, event)


@router.get("/second-factor", response_model=SecondFactorStatus)
async def read_second_factor(request: Request, caller: Caller) -> Response:
    """Return if the caller has a second factor, and how many recovery codes are left (`GET /api/second-factor`)."""
    left = await services_of(request).access.second_factor.recovery_codes_left(caller.user.id)
    return schema_response(SecondFactorStatus(enabled=left is not None, recovery_codes_left=left or 0))


@router.post("/second-factor", response_model=NewSecondFactor, status_code=201)
async def begin_second_factor(request: Request, caller: Caller, body: CurrentPasswordJson) -> Response:
    """Begin to set up the caller's second factor (`POST /api/second-factor`).

    Checks the password, and returns the secret for an authenticator app.
    """
    access = services_of(request).access.second_factor_sign_in
    with failures_recorded(request, caller.user):
        enrolment = await access.enrol(caller.user, body.password, client_address(request))
    return schema_response(
        NewSecondFactor(secret=enrolment.secret, uri=enrolment.uri, qr_code=enrolment.qr_code()), 201
    )


@router.post("/second-factor/confirm", response_model=RecoveryCodes)
async def confirm_second_factor(request: Request, caller: Caller, body: CodeJson) -> Response:
    """Enable the caller's second factor by the app's first code (`POST /api/second-factor/confirm`).

    Ends all other sessions of the person. Only this response has the recovery codes.
    """
    with failures_recorded(request, caller.user):
        codes, signed_in = await services_of(request).access.second_factor_sign_in.confirm(caller, body.code)
    await _record(request, caller, Event.SECOND_FACTOR_ENABLED)
    await check_with_provider(request, signed_in.session)
    response = schema_response(RecoveryCodes(codes=codes))
    set_session_cookies(request, response, signed_in)
    return response


@router.delete("/second-factor", status_code=204)
async def disable_second_factor(request: Request, caller: Caller, body: DisableSecondFactorJson) -> Response:
    """Remove the caller's second factor, after the password and a code (`DELETE /api/second-factor`).

    The code is of the app or a recovery code.
    """
    access = services_of(request).access.second_factor_sign_in
    with failures_recorded(request, caller.user):
        await access.disable(caller.user, body.password, body.code, client_address(request))
    await _record(request, caller, Event.SECOND_FACTOR_DISABLED)
    return no_content()


@router.delete("/people/{user}/second-factor", status_code=204)
async def reset_second_factor(request: Request, user: str, caller: Caller, _empty: EmptyJson) -> Response:
    """Remove the second factor of a member (`DELETE /api/people/{user}/second-factor`).

    The member must have a lower role and be in no other organisation.
    """
    member = await services_of(request).access.second_factor.reset_member(caller.actor, user)
    details = {"email": member.email, "by": "administrator"}
    await record_event(request, caller, Event.SECOND_FACTOR_DISABLED, member.id, details=details)
    return no_content()


async def _record(request: Request, caller: BrowserSession, event: Event) -> None:
    services, actor = services_of(request), audit_actor(request, caller.user)
    await record_account_event(services.audit, services.access.members.memberships, caller.user, event, actor)
