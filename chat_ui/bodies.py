"""What calls of the chat's API send, and how it is read: strictly, and never more than the fields named here.

A field that is not named (a role, an id, a balance) is not read at all, so nobody can give himself one.
"""

from __future__ import annotations

from collections.abc import Callable, Coroutine
from typing import Annotated, Any, TypeVar

from fastapi import Request
from pydantic import BaseModel, ConfigDict, Field, ValidationError

from auth_billing.people.roles import Role
from chat_ui.errors import InvalidField
from chat_ui.guard import max_body_bytes
from infra.runtime import strict_json

BODY_SECONDS = 10.0
SECONDS_PER_MIB = 2.0
"""More, for bodies that may be large."""
KIND = "__headrace_body__"
"""Where a dependency says what it reads (`openapi.py`)."""


class Body(BaseModel):
    """No coercion, unknown fields not read."""

    model_config = ConfigDict(strict=True, extra="ignore", frozen=True)


class SignInBody(Body):
    """Who signs in; `organisation`: into which, for people of several."""

    email: str
    password: str
    organisation: str = ""


class SignUpBody(Body):
    """Who signs up: with an invitation, or for an organisation of this name."""

    email: str
    password: str
    name: str = ""
    invitation: str = ""
    organisation: str = ""


class StartBody(Body):
    """The token of the link that the launcher has printed."""

    invitation: str


class PasswordBody(Body):
    """A new password, and the one until now."""

    old_password: str
    password: str


class RoleBody(Body):
    """Another role for somebody."""

    role: Annotated[Role, Field(strict=False)]


class InvitationBody(Body):
    """Whom to invite: with an address, only who has that; else whoever gets the link."""

    role: Annotated[Role, Field(strict=False)]
    email: str = ""


class NoBody(Body):
    """Nothing but, perhaps, `{}`."""


B = TypeVar("B", bound=Body)


def body_of(kind: type[B]) -> Callable[..., Coroutine[Any, Any, B]]:
    """A dependency that reads the body as `kind`; the guard has looked at the headers by then."""

    async def read(request: Request) -> B:
        raw = await raw_body(request)
        value = await strict_json.parse(raw, lambda parsed: parsed) if raw or kind is not NoBody else {}
        return parse(kind, value)

    setattr(read, KIND, kind)
    return read


async def raw_body(request: Request) -> bytes:
    """The bytes of a body, as many as the endpoint takes."""
    most = max_body_bytes(request)
    return await strict_json.read_body(request.stream(), most, BODY_SECONDS + SECONDS_PER_MIB * most / 2**20)


def parse(kind: type[B], value: Any) -> B:
    """Decoded JSON as `kind`.

    Raises:
        InvalidField: it is none. What was sent is never repeated.
    """
    if not isinstance(value, dict):
        raise InvalidField(None, "The body must be a JSON object.")
    try:
        return kind.model_validate(value)
    except ValidationError as error:
        first = error.errors(include_url=False, include_input=False, include_context=False)[0]
        param = ".".join(map(str, first["loc"])) if first["loc"] else None
        raise InvalidField(param, f"{first['msg']}.") from error
