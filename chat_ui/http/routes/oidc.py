"""HTTP routes of sign-in at an OpenID Connect provider: `/api/oidc/…`.

The provider sends the browser back to `/api/oidc/callback`, which always answers with a redirect: into the chat, or to
the sign-in page with an error code in the fragment.
"""

from __future__ import annotations

import structlog
from fastapi import APIRouter, Request
from starlette.datastructures import QueryParams
from starlette.responses import RedirectResponse, Response

from auth_billing.audit_log import Event
from auth_billing.errors import AccountError, InvalidSession, ProviderSignInRefused
from auth_billing.people.oidc.configuration import SIGN_IN_PATH
from auth_billing.people.oidc.oidc_sign_in import Answer, OidcSignIn, Outcome
from auth_billing.people.oidc.transactions import Transaction
from auth_billing.people.sessions import BrowserSession
from chat_ui.errors import UnknownUrl, response_to
from chat_ui.http import cookies
from chat_ui.http.access_control import Caller, SameOrigin, public
from chat_ui.http.audit_events import failures_recorded
from chat_ui.http.provider_events import record_changes
from chat_ui.http.request_bodies import ConnectionJson, EmptyJson, ProviderSignInJson
from chat_ui.http.responses import NO_STORE, no_content, schema_response
from chat_ui.http.routes.session import set_session_cookies
from chat_ui.http.schemas.people import Identity, IdentityList, ProviderOptions, ProviderUrl
from chat_ui.services import client_address, record_event, services_of

MAX_PARAMETER = 4096
"""Characters of a parameter of the provider's redirect."""

router = APIRouter(prefix="/oidc")
_log = structlog.get_logger(__name__)


@router.get("", response_model=ProviderOptions)
@public
async def read_provider_options(request: Request) -> Response:
    """Return the identity provider's name, if any, and whether passwords may be used too (`GET /api/oidc`)."""
    services = services_of(request)
    label = None if services.oidc is None else services.oidc.configuration.label
    return schema_response(ProviderOptions(label=label, password_sign_in=services.access.sessions.password_sign_in))


@router.post("/sign-in", response_model=ProviderUrl)
@public
async def begin_sign_in(request: Request, _same_origin: SameOrigin, body: ProviderSignInJson) -> Response:
    """Begin a sign-in at the identity provider: set its cookie, return the page to visit (`POST /api/oidc/sign-in`)."""
    url, transaction = await _oidc(request).begin(client_address(request), body.return_to)
    return _begun(request, url, transaction)


@router.post("/connection", response_model=ProviderUrl)
async def begin_connection(request: Request, caller: Caller, body: ConnectionJson) -> Response:
    """Begin to connect the caller's account with an identity at the provider (`POST /api/oidc/connection`).

    Checks password and code, and returns the provider's page to visit.
    """
    oidc, address = _oidc(request), client_address(request)
    with failures_recorded(request, caller.user):
        url, transaction = await oidc.begin_connection(caller, body.password, body.code, address)
    return _begun(request, url, transaction)


@router.get("/identities", response_model=IdentityList)
async def list_identities(request: Request, caller: Caller) -> Response:
    """List the accounts at the identity provider that sign in as the caller (`GET /api/oidc/identities`)."""
    found = await _oidc(request).identities(caller.user)
    rows = [
        Identity(id=each.id, issuer=each.issuer, subject=each.subject, connected_at=int(each.created)) for each in found
    ]
    return schema_response(IdentityList(identities=rows))


@router.delete("/identities/{identity}", status_code=204)
async def disconnect_identity(request: Request, identity: str, caller: Caller, body: ConnectionJson) -> Response:
    """Disconnect an identity at the provider from the caller's account (`DELETE /api/oidc/identities/{identity}`).

    Checks password and code, and ends all other sessions.
    """
    oidc, address = _oidc(request), client_address(request)
    with failures_recorded(request, caller.user):
        signed_in = await oidc.disconnect(caller, identity, body.password, body.code, address)
    await record_event(request, caller, Event.IDENTITY_DISCONNECTED, identity)
    response = no_content()
    set_session_cookies(request, response, signed_in)
    return response


@router.get("/callback", status_code=303, response_class=RedirectResponse)
@public
async def complete_sign_in(request: Request) -> Response:
    """Complete a sign-in or a connection with the identity provider's answer (`GET /api/oidc/callback`).

    Redirects the browser into the chat.
    """
    try:
        outcome = await _oidc(request).finish(
            cookies.read(request, cookies.OIDC), _answer(request.query_params), await _session(request)
        )
        response = await _completed(request, outcome)
    except AccountError as error:
        reason = error.reason if isinstance(error, ProviderSignInRefused) else response_to(error).code
        _log.warning("sign-in at the identity provider failed", reason=reason, detail=str(error))
        response = _redirect(f"{SIGN_IN_PATH}#problem={reason}")
    cookies.set_transaction(request, response, "")
    return response


@router.post("/sign-out", response_model=ProviderUrl)
async def sign_out_at_provider(request: Request, caller: Caller, _empty: EmptyJson) -> Response:
    """Sign out, and return the provider's page that ends the session there (`POST /api/oidc/sign-out`)."""
    oidc = _oidc(request)
    await services_of(request).access.sessions.end(caller)
    await record_event(request, caller, Event.LOGOUT_SUCCEEDED, caller.user.id, details={"everywhere": False})
    response = schema_response(ProviderUrl(url=await oidc.sign_out_url() or None))
    cookies.clear_session(request, response)
    return response


def _oidc(request: Request) -> OidcSignIn:
    oidc = services_of(request).oidc
    if oidc is None:
        raise UnknownUrl
    return oidc


def _begun(request: Request, url: str, transaction: Transaction) -> Response:
    response = schema_response(ProviderUrl(url=url))
    cookies.set_transaction(request, response, transaction.cookie)
    return response


def _answer(query: QueryParams) -> Answer:
    """Return the provider's parameters; one that is repeated or too long counts as not sent."""
    code, state, issuer, error = (_parameter(query, name) for name in ("code", "state", "iss", "error"))
    return Answer(state, code, issuer, error)


def _parameter(query: QueryParams, name: str) -> str:
    sent = query.getlist(name)  # reads the whole query: call it for known names only, not for each that was sent
    return sent[0] if len(sent) == 1 and len(sent[0]) <= MAX_PARAMETER else ""


async def _session(request: Request) -> BrowserSession | None:
    try:
        access = cookies.read(request, cookies.ACCESS)
        return await services_of(request).access.sessions.authenticate(access, cached=False)
    except InvalidSession:
        return None


async def _completed(request: Request, outcome: Outcome) -> Response:
    await record_changes(request, outcome.user, outcome.changes)
    if outcome.refused:
        raise ProviderSignInRefused(outcome.refused, f"no membership of {outcome.user.id} is left")
    response = _redirect(outcome.return_to)
    if outcome.signed_in is not None:
        session = outcome.signed_in.session
        await record_event(
            request, session, Event.LOGIN_SUCCEEDED, session.user.id, details={"source": "identity provider"}
        )
        set_session_cookies(request, response, outcome.signed_in)
    elif (connected := await _session(request)) is not None:
        await record_event(request, connected, Event.IDENTITY_CONNECTED, outcome.connected)
    return response


def _redirect(path: str) -> Response:
    return RedirectResponse(path, 303, NO_STORE)
