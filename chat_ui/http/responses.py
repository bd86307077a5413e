"""Builds the chat API's JSON responses (`no-store`), and reads the signed-in user and members for them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from fastapi.responses import JSONResponse
from starlette.responses import Response

from auth_billing.people.members import Member
from auth_billing.people.people_records import Invitation as InvitationRecord
from auth_billing.people.sessions import BrowserSession
from chat_ui.errors import error_body, error_headers, response_to
from chat_ui.http.schemas.base import Schema
from chat_ui.http.schemas.people import Me, Person
from chat_ui.services import ChatServices

NO_STORE = {"cache-control": "no-store"}


def schema_response(value: Schema, status: int = 200) -> Response:
    """Return a JSON response with the response model `value` as its body, which must not be cached."""
    return Response(value.model_dump_json(), status, NO_STORE, "application/json")


def no_content() -> Response:
    """Return an empty response with status 204, which must not be cached."""
    return Response(status_code=204, headers=NO_STORE)


def error_response(error: Exception) -> Response:
    """Return the chat API's JSON response to an exception, with status and code from `chat_ui.errors`."""
    return JSONResponse(error_body(error), response_to(error).status, NO_STORE | error_headers(error))


async def me_of(services: ChatServices, session: BrowserSession) -> Me:
    """Read the organisation and projects of a session's user; return them with user and role as the model `Me`."""
    organisation = await services.access.projects.organisation(session.organisation)
    projects = await services.access.projects.all(session.organisation)
    operator = services.admin.is_operator(session.actor)
    fields = {**vars(session), "organisation": organisation, "projects": projects, "operator": operator}
    return Me.model_validate(fields)


async def people_of(services: ChatServices, members: Sequence[Member]) -> list[Person]:
    """Return members as response models, in order, with whether each has a second factor, read from the store."""
    with_factor = await services.access.second_factor.store.confirmed([member.user.id for member in members])
    return [
        Person.model_validate(
            {
                **vars(member.user),
                "role": member.role,
                "added_at": int(member.added),
                "second_factor": member.user.id in with_factor,
            }
        )
        for member in members
    ]


def invitation_fields(invitation: InvitationRecord, now: float) -> dict[str, Any]:
    """Return the fields of an invitation's response models, for administrators; the token is not among them."""
    return {
        "id": invitation.id,
        "email": invitation.email or None,
        "role": invitation.role,
        "status": invitation.status(now),
        "created_at": int(invitation.created),
        "expires_at": int(invitation.expires),
        "invited_by": invitation.invited_by or None,
        "accepted_by": invitation.accepted_by or None,
    }
