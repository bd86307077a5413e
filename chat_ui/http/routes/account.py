"""HTTP routes of account and sign-up: `/api/me`, `/api/sign-up`, `/api/start`, `/api/invitations/{token}`."""

from __future__ import annotations

from fastapi import APIRouter, Request, Response

from auth_billing.audit_log import Event
from auth_billing.errors import SecondFactorRequired
from auth_billing.people.sign_up import SignUpInput
from chat_ui.errors import InvalidField
from chat_ui.http.access_control import Caller, SameOrigin, public
from chat_ui.http.audit_events import record_membership
from chat_ui.http.request_bodies import SignUpJson, StartJson
from chat_ui.http.responses import me_of, schema_response
from chat_ui.http.routes.session import session_response
from chat_ui.http.schemas.people import InvitationPreview, Me, PendingSignIn, SignUpOptions
from chat_ui.services import client_address, services_of

router = APIRouter()


@router.get("/me", response_model=Me)
async def read_me(request: Request, caller: Caller) -> Response:
    """Return the signed-in user, the organisation, the role in it, and its projects (`GET /api/me`)."""
    return schema_response(await me_of(services_of(request), caller))


@router.get("/sign-up", response_model=SignUpOptions)
@public
async def read_sign_up_options(request: Request) -> Response:
    """Return whether people can sign up without an invitation (`GET /api/sign-up`)."""
    return schema_response(SignUpOptions(open=services_of(request).access.sign_up.registration_open))


@router.post("/sign-up", response_model=Me | PendingSignIn)
@public
async def sign_up(request: Request, _same_origin: SameOrigin, body: SignUpJson) -> Response:
    """Sign up by an invitation or, if sign-up is open, with a new organisation (`POST /api/sign-up`).

    Opens a session and sets its cookies, or asks for the second factor. Existing users can accept invitations too.
    """
    services = services_of(request)
    new_user = SignUpInput(body.email, body.name, body.password, client_address(request))
    if body.invitation:
        try:
            signed_in = await services.access.sign_up.accept_invitation(body.invitation, new_user)
        except SecondFactorRequired as error:
            return schema_response(PendingSignIn(challenge=error.challenge))
        await record_membership(request, signed_in.session)
        return await session_response(request, services, signed_in, Event.INVITE_ACCEPTED)
    if not body.organisation and services.access.sign_up.registration_open:
        raise InvalidField("organisation", "Give your organisation a name.")
    signed_in = await services.access.sign_up.register(new_user, body.organisation)
    await record_membership(request, signed_in.session)
    return await session_response(request, services, signed_in, Event.ORGANIZATION_CREATED)


@router.post("/start", response_model=Me)
@public
async def start(request: Request, _same_origin: SameOrigin, body: StartJson) -> Response:
    """Sign in as the installation's first owner by the link that the launcher printed (`POST /api/start`).

    Opens a session and sets its cookies.
    """
    services = services_of(request)
    signed_in = await services.access.local_owner.sign_in(body.invitation)
    await record_membership(request, signed_in.session)
    return await session_response(request, services, signed_in, Event.LOGIN_SUCCEEDED)


@router.get("/invitations/{token}", response_model=InvitationPreview)
@public
async def read_invitation(request: Request, token: str) -> Response:
    """Return organisation, role and address of the pending invitation with a token (`GET /api/invitations/{token}`)."""
    access = services_of(request).access
    invitation = await access.invitations.open(token)
    organisation = await access.projects.organisation(invitation.organisation)
    return schema_response(
        InvitationPreview(
            organisation=organisation.name,
            role=invitation.role,
            email=invitation.email or None,
            expires_at=int(invitation.expires),
        )
    )
