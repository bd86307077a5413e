"""Who I am, and how somebody becomes somebody: `/api/me`, `/api/sign-up`, `/api/invitations/{token}`."""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter, Depends, Request, Response

from auth_billing.audit_log import Event
from auth_billing.people.sign_up import Newcomer
from chat_ui.answers import json_answer, me
from chat_ui.bodies import SignUpBody, StartBody, body_of
from chat_ui.chat import address_of, chat_of
from chat_ui.errors import InvalidField
from chat_ui.guard import Caller, OurPage, public
from chat_ui.routes.session import begun
from chat_ui.shapes.people import InvitationShown, Me, Ways

router = APIRouter()


@router.get("/me", response_model=Me)
async def who_am_i(request: Request, caller: Caller) -> Response:
    """The person, the organisation, the role in it, and its projects."""
    return json_answer(await me(chat_of(request), caller))


@router.get("/sign-up", response_model=Ways)
@public
async def ways_to_sign_up(request: Request) -> Response:
    """Whether anybody may sign up, or only who is invited."""
    return json_answer({"open": chat_of(request).access.sign_up.is_open})


@router.post("/sign-up", response_model=Me)
@public
async def sign_up(
    request: Request, _ours: OurPage, body: Annotated[SignUpBody, Depends(body_of(SignUpBody))]
) -> Response:
    """Sign up by an invitation, or, where that is open, with an organisation of one's own."""
    chat = chat_of(request)
    newcomer = Newcomer(body.email, body.name, body.password, address_of(request))
    if body.invitation:
        signed_in = await chat.access.sign_up.by_invitation(body.invitation, newcomer)
        return await begun(request, chat, signed_in, Event.INVITE_ACCEPTED)
    if not body.organisation and chat.access.sign_up.is_open:
        raise InvalidField("organisation", "Give your organisation a name.")
    signed_in = await chat.access.sign_up.uninvited(newcomer, body.organisation)
    return await begun(request, chat, signed_in, Event.ORGANIZATION_CREATED)


@router.post("/start", response_model=Me)
@public
async def start(request: Request, _ours: OurPage, body: Annotated[StartBody, Depends(body_of(StartBody))]) -> Response:
    """Let whoever started the installation in, by the link that the launcher has printed."""
    chat = chat_of(request)
    signed_in = await chat.access.local_owner.let_in(body.invitation)
    return await begun(request, chat, signed_in, Event.LOGIN_SUCCEEDED)


@router.get("/invitations/{token}", response_model=InvitationShown)
@public
async def read_invitation(request: Request, token: str) -> Response:
    """What an invitation is for, for whoever has its token."""
    access = chat_of(request).access
    invitation = await access.invitations.open(token)
    organisation = await access.projects.organisation(invitation.organisation)
    return json_answer(
        {
            "organisation": organisation.name,
            "role": invitation.role.value,
            "email": invitation.email or None,
            "expires_at": int(invitation.expires),
        }
    )
