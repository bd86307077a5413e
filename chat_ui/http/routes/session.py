"""Routes of sign-in, sign-out, token refresh and password: `/api/session`, `/api/sessions`, `/api/password`."""

from __future__ import annotations

from typing import Annotated

import structlog
from fastapi import APIRouter, Depends, Request, Response

from auth_billing.audit_log import Event
from auth_billing.errors import InvalidCredentials, InvalidSession
from auth_billing.people import refresh_tokens
from auth_billing.people.sessions import BrowserSession, SignedIn
from chat_ui.chat import Chat, address_of, chat_of, doer
from chat_ui.http import cookies
from chat_ui.http.answers import error_answer, json_answer, me, nothing
from chat_ui.http.bodies import NoBody, PasswordBody, SignInBody, body_of
from chat_ui.http.guard import Caller, OurPage, check_csrf, public
from chat_ui.http.shapes.people import Me

router = APIRouter()
_log = structlog.get_logger(__name__)


@router.post("/session", response_model=Me)
@public
async def sign_in(
    request: Request, _ours: OurPage, body: Annotated[SignInBody, Depends(body_of(SignInBody))]
) -> Response:
    """Sign in with e-mail address and password."""
    chat, address = chat_of(request), address_of(request)
    try:
        signed_in = await chat.access.sign_in.sign_in(body.email, body.password, address, body.organisation)
    except InvalidCredentials:
        _log.info("sign-in failed", address=address)
        raise
    return await begun(request, chat, signed_in, Event.LOGIN_SUCCEEDED)


@router.delete("/session", status_code=204)
async def sign_out(request: Request, caller: Caller, _none: Annotated[NoBody, Depends(body_of(NoBody))]) -> Response:
    """Sign out of this browser."""
    chat = chat_of(request)
    await chat.access.sessions.end(caller)
    return await _ended(request, chat, caller, everywhere=False)


@router.delete("/sessions", status_code=204)
async def sign_out_everywhere(
    request: Request, caller: Caller, _none: Annotated[NoBody, Depends(body_of(NoBody))]
) -> Response:
    """Sign out of every browser."""
    chat = chat_of(request)
    await chat.access.sessions.end_all(caller)
    return await _ended(request, chat, caller, everywhere=True)


@router.post("/session/refresh", status_code=204)
@public
async def refresh(request: Request, _ours: OurPage, _none: Annotated[NoBody, Depends(body_of(NoBody))]) -> Response:
    """Exchange the refresh token for new tokens; the cookies of a session that has ended are deleted."""
    access = chat_of(request).access
    try:
        token = refresh_tokens.parse(cookies.read(request, cookies.REFRESH))
        check_csrf(request, access.csrf_token(token.session))
        signed_in = await access.sessions.refresh(token)
    except InvalidSession as error:
        response = error_answer(error)
        cookies.clear_session(request, response)
        return response
    response = nothing()
    _give(request, response, signed_in)
    return response


@router.post("/password", response_model=Me)
async def change_password(
    request: Request, caller: Caller, body: Annotated[PasswordBody, Depends(body_of(PasswordBody))]
) -> Response:
    """Change the password and sign out the person's other browsers."""
    chat = chat_of(request)
    signed_in = await chat.access.sign_in.change_password(caller, body.old_password, body.password, address_of(request))
    return await begun(request, chat, signed_in, Event.PASSWORD_CHANGED)


async def begun(request: Request, chat: Chat, signed_in: SignedIn, event: Event) -> Response:
    """Record a new session in the audit log, and return the response that sets its cookies."""
    session = signed_in.session
    await chat.audit.record(session.organisation, event, session.user.id, doer(request, session.user))
    response = json_answer(await me(chat, session))
    _give(request, response, signed_in)
    return response


def _give(request: Request, response: Response, signed_in: SignedIn) -> None:
    csrf = chat_of(request).access.csrf_token(signed_in.session.id)
    cookies.set_session(request, response, signed_in.access, signed_in.refresh, csrf)


async def _ended(request: Request, chat: Chat, session: BrowserSession, *, everywhere: bool) -> Response:
    await chat.audit.record(
        session.organisation,
        Event.LOGOUT_SUCCEEDED,
        session.user.id,
        doer(request, session.user),
        details={"everywhere": everywhere},
    )
    response = nothing()
    cookies.clear_session(request, response)
    return response
