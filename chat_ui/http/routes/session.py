"""HTTP routes of sign-in, sign-out, token refresh and password: `/api/session`, `/api/sessions`, `/api/password`."""

from __future__ import annotations

import structlog
from fastapi import APIRouter, Request, Response

from auth_billing.audit_log import Event
from auth_billing.errors import InvalidCredentials, InvalidSession, SecondFactorRequired
from auth_billing.people import refresh_tokens
from auth_billing.people.sessions import BrowserSession, SignedIn
from chat_ui.http import audit_events, cookies
from chat_ui.http.access_control import Caller, SameOrigin, check_csrf, public
from chat_ui.http.provider_events import check_with_provider
from chat_ui.http.request_bodies import EmptyJson, PasswordJson, SignInJson
from chat_ui.http.responses import error_response, me_of, no_content, schema_response
from chat_ui.http.schemas.people import Me, PendingSignIn
from chat_ui.services import ChatServices, client_address, record_event, services_of

router = APIRouter()
_log = structlog.get_logger(__name__)


@router.post("/session", response_model=Me | PendingSignIn)
@public
async def sign_in(request: Request, _same_origin: SameOrigin, body: SignInJson) -> Response:
    """Sign in with e-mail address and password (`POST /api/session`).

    Opens a session and sets its cookies, or asks for the second factor.
    """
    services, address = services_of(request), client_address(request)
    try:
        signed_in = await services.access.sign_in.sign_in(body.email, body.password, address, body.organisation)
    except InvalidCredentials:
        _log.info("sign-in failed", address=address)
        audit_events.record_failed_sign_in(services, body.email, address)
        raise
    except SecondFactorRequired as error:
        return schema_response(PendingSignIn(challenge=error.challenge))
    return await session_response(request, services, signed_in, Event.LOGIN_SUCCEEDED)


@router.delete("/session", status_code=204)
async def sign_out(request: Request, caller: Caller, _empty: EmptyJson) -> Response:
    """Sign out of this browser: end its session and delete the cookies (`DELETE /api/session`)."""
    await services_of(request).access.sessions.end(caller)
    return await _signed_out_response(request, caller, everywhere=False)


@router.delete("/sessions", status_code=204)
async def sign_out_everywhere(request: Request, caller: Caller, _empty: EmptyJson) -> Response:
    """Sign out of every browser: end all sessions of the caller, in all organisations (`DELETE /api/sessions`)."""
    await services_of(request).access.sessions.end_all(caller)
    return await _signed_out_response(request, caller, everywhere=True)


@router.post("/session/refresh", status_code=204)
@public
async def refresh(request: Request, _same_origin: SameOrigin, _empty: EmptyJson) -> Response:
    """Exchange the refresh token in the cookie for new tokens (`POST /api/session/refresh`).

    The cookies of a session that has ended are deleted.
    """
    access = services_of(request).access
    try:
        token = refresh_tokens.parse(cookies.read(request, cookies.REFRESH))
        check_csrf(request, access.csrf_token(token.session))
        signed_in = await access.sessions.refresh(token)
        await check_with_provider(request, signed_in.session)
    except InvalidSession as error:
        response = error_response(error)
        cookies.clear_session(request, response)
        return response
    response = no_content()
    set_session_cookies(request, response, signed_in)
    return response


@router.post("/password", response_model=Me)
async def change_password(request: Request, caller: Caller, body: PasswordJson) -> Response:
    """Change the caller's password (`POST /api/password`).

    Ends all sessions of the person, and opens a new one for this browser.
    """
    services = services_of(request)
    with audit_events.failures_recorded(request, caller.user):
        signed_in = await services.access.sign_in.change_password(
            caller, body.old_password, body.password, client_address(request)
        )
    return await session_response(request, services, signed_in, Event.PASSWORD_CHANGED)


async def session_response(request: Request, services: ChatServices, signed_in: SignedIn, event: Event) -> Response:
    """Record `event` of a new session in the audit log; return a `Me` response that sets the session's cookies."""
    session = signed_in.session
    await record_event(request, session, event, session.user.id)
    response = schema_response(await me_of(services, session))
    set_session_cookies(request, response, signed_in)
    return response


def set_session_cookies(request: Request, response: Response, signed_in: SignedIn) -> None:
    """Set the access, refresh and CSRF cookies of a new or refreshed browser session on a response."""
    csrf = services_of(request).access.csrf_token(signed_in.session.id)
    cookies.set_session(request, response, signed_in.access, signed_in.refresh, csrf)


async def _signed_out_response(request: Request, session: BrowserSession, *, everywhere: bool) -> Response:
    await record_event(request, session, Event.LOGOUT_SUCCEEDED, session.user.id, details={"everywhere": everywhere})
    response = no_content()
    cookies.clear_session(request, response)
    return response
