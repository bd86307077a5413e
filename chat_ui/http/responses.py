"""Builds the HTTP responses of the chat API: JSON with `Cache-Control: no-store`."""

from __future__ import annotations

from typing import Any

from fastapi.responses import JSONResponse
from starlette.responses import Response

from auth_billing.people.members import Member
from auth_billing.people.people_records import Invitation
from auth_billing.people.sessions import BrowserSession
from chat_ui.errors import error_body, error_headers, response_to
from chat_ui.http.schemas.base import Schema
from chat_ui.services import ChatServices

NO_STORE = {"cache-control": "no-store"}


def json_response(value: dict[str, Any], status: int = 200) -> Response:
    """Return a dictionary as a JSON response."""
    return JSONResponse(value, status, NO_STORE)


def schema_response(value: Schema, status: int = 200) -> Response:
    """Return a response model as a JSON response."""
    return Response(value.model_dump_json(), status, NO_STORE, "application/json")


def no_content() -> Response:
    """Return an empty response with status 204."""
    return Response(status_code=204, headers=NO_STORE)


def error_response(error: Exception) -> Response:
    """Return the response that `chat_ui.errors.TABLE` has for an error."""
    return JSONResponse(error_body(error), response_to(error).status, NO_STORE | error_headers(error))


async def session_fields(services: ChatServices, session: BrowserSession) -> dict[str, Any]:
    """Return JSON fields of a session: the signed-in user, the organisation, the user's role, and the projects."""
    organisation = await services.access.projects.organisation(session.organisation)
    projects = await services.access.projects.all(session.organisation)
    return {
        "user": {"id": session.user.id, "email": session.user.email, "name": session.user.name},
        "organisation": {"id": organisation.id, "name": organisation.name},
        "role": session.role.value,
        "project": session.project,
        "projects": [{"id": project.id, "name": project.name} for project in projects],
    }


def member_fields(member: Member) -> dict[str, Any]:
    """Return the JSON fields of a member, for administrators."""
    return {
        "id": member.user.id,
        "email": member.user.email,
        "name": member.user.name,
        "role": member.role.value,
        "added_at": int(member.added),
    }


def invitation_fields(invitation: Invitation, now: float) -> dict[str, Any]:
    """Return the JSON fields of an invitation, without its token, for administrators."""
    return {
        "id": invitation.id,
        "email": invitation.email or None,
        "role": invitation.role.value,
        "status": invitation.status(now).value,
        "created_at": int(invitation.created),
        "expires_at": int(invitation.expires),
        "invited_by": invitation.invited_by or None,
        "accepted_by": invitation.accepted_by or None,
    }
