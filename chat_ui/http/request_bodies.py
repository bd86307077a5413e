"""Reads and validates request bodies of the chat API: strict JSON within a size and a time limit, by pydantic models.

Fields that the model does not name (a role, an id, a balance) are ignored, so a client can't set them.
"""

from __future__ import annotations

import tempfile
from collections.abc import AsyncIterator, Callable, Coroutine
from contextlib import asynccontextmanager
from typing import Annotated, Any, BinaryIO, TypeVar

from fastapi import Depends, Request
from pydantic import BaseModel, ConfigDict, Field, ValidationError

from auth_billing.access.roles import Role
from auth_billing.people.reset_mails import Language
from chat_ui.errors import InvalidField
from chat_ui.http.access_control import max_body_bytes
from runtime import strict_json

BODY_TIMEOUT = 10.0
"""Time limit for reading a body, in seconds, before `SECONDS_PER_MIB` is added."""
SECONDS_PER_MIB = 2.0
"""Time added for each MiB that the endpoint accepts."""
BODY_MODEL = "__headrace_body__"
"""Attribute of a dependency that holds the body model it reads, for `openapi.py`."""


class Body(BaseModel):
    """A request body: types are not coerced, and unknown fields are ignored."""

    model_config = ConfigDict(strict=True, extra="ignore", frozen=True)


class SignInBody(Body):
    """Credentials of a sign-in. `organisation` selects one, for a user who is a member of several."""

    email: str
    password: str
    organisation: str = ""


class SignUpBody(Body):
    """A sign-up: either with an invitation's token, or with the name of a new organisation."""

    email: str
    password: str
    name: str = ""
    invitation: str = ""
    organisation: str = ""


class StartBody(Body):
    """The token of the sign-in link that the launcher printed."""

    invitation: str


class PasswordBody(Body):
    """The new and the current password of the signed-in user."""

    old_password: str
    password: str


class CodeBody(Body):
    """A code of an authenticator app."""

    code: str


class SecondFactorBody(Body):
    """The challenge that a sign-in answered with, and a code of the authenticator app or a recovery code."""

    challenge: str
    code: str


class CurrentPasswordBody(Body):
    """The password of the signed-in user."""

    password: str


class DisableSecondFactorBody(Body):
    """The password of the signed-in user, and a code of the authenticator app or a recovery code."""

    password: str
    code: str


class ForgottenPasswordBody(Body):
    """The e-mail address of an account whose password is forgotten, and the language of the mail."""

    email: str
    language: Annotated[Language, Field(strict=False)] = Language.EN


class NewPasswordBody(Body):
    """The token of a password reset link, and the new password."""

    token: str
    password: str


class ProviderSignInBody(Body):
    """The path of this site that the browser is sent to after the sign-in at the identity provider."""

    return_to: str = "/"


class ConnectionBody(Body):
    """Password, and code of a second factor, to connect the account with an identity at the provider."""

    password: str
    code: str = ""


class RoleBody(Body):
    """The new role of a member."""

    role: Annotated[Role, Field(strict=False)]


class InvitationBody(Body):
    """A new invitation. With an e-mail address, only its owner can accept; without, anyone who has the link."""

    role: Annotated[Role, Field(strict=False)]
    email: str = ""


class EmptyBody(Body):
    """An empty body, or `{}`."""


B = TypeVar("B", bound=Body)


def body_of(model: type[B]) -> Callable[..., Coroutine[Any, Any, B]]:
    """Return a FastAPI dependency that reads a request's JSON body and validates it as `model`.

    The route's guard has checked the headers before.

    Raises:
        InvalidField, MalformedRequest: (the dependency) the body is no JSON, or does not fit the model.
    """

    async def read(request: Request) -> B:
        raw = await raw_body(request)
        value = await strict_json.parse(raw, lambda parsed: parsed) if raw or model is not EmptyBody else {}
        return parse(model, value)

    setattr(read, BODY_MODEL, model)
    return read


# Dependencies of routes: each reads and validates a request body.
SignInJson = Annotated[SignInBody, Depends(body_of(SignInBody))]
SignUpJson = Annotated[SignUpBody, Depends(body_of(SignUpBody))]
StartJson = Annotated[StartBody, Depends(body_of(StartBody))]
PasswordJson = Annotated[PasswordBody, Depends(body_of(PasswordBody))]
CodeJson = Annotated[CodeBody, Depends(body_of(CodeBody))]
SecondFactorJson = Annotated[SecondFactorBody, Depends(body_of(SecondFactorBody))]
CurrentPasswordJson = Annotated[CurrentPasswordBody, Depends(body_of(CurrentPasswordBody))]
DisableSecondFactorJson = Annotated[DisableSecondFactorBody, Depends(body_of(DisableSecondFactorBody))]
ForgottenPasswordJson = Annotated[ForgottenPasswordBody, Depends(body_of(ForgottenPasswordBody))]
NewPasswordJson = Annotated[NewPasswordBody, Depends(body_of(NewPasswordBody))]
ProviderSignInJson = Annotated[ProviderSignInBody, Depends(body_of(ProviderSignInBody))]
ConnectionJson = Annotated[ConnectionBody, Depends(body_of(ConnectionBody))]
RoleJson = Annotated[RoleBody, Depends(body_of(RoleBody))]
InvitationJson = Annotated[InvitationBody, Depends(body_of(InvitationBody))]
EmptyJson = Annotated[EmptyBody, Depends(body_of(EmptyBody))]
"""Dependency of a route without a body: an empty body or `{}` is read, any other refused."""


async def raw_body(request: Request) -> bytes:
    """Read and return a request's body, within the endpoint's size limit and a time limit that grows with its size."""
    limit = max_body_bytes(request)
    return await strict_json.read_body(request.stream(), limit, body_timeout(limit))


@asynccontextmanager
async def spooled_body(request: Request) -> AsyncIterator[BinaryIO]:
    """Return a context manager that receives a request's body, up to the endpoint's limit, into a temporary file.

    The file has no name and is open for reading until the context ends.
    """
    limit = max_body_bytes(request)
    with tempfile.TemporaryFile() as file:
        await strict_json.receive_body(request.stream(), limit, body_timeout(limit), file.write)
        file.flush()
        file.seek(0)
        yield file


def body_timeout(limit: int) -> float:
    """Return the seconds that reading a body of at most `limit` bytes may take."""
    return BODY_TIMEOUT + SECONDS_PER_MIB * limit / 2**20


def parse(model: type[B], value: Any) -> B:
    """Validate the decoded JSON of a request body and return it as an instance of `model`.

    Raises:
        InvalidField: the value does not fit. The message does not repeat what was sent.
    """
    if not isinstance(value, dict):
        raise InvalidField(None, "The body must be a JSON object.")
    try:
        return model.model_validate(value)
    except ValidationError as error:
        first = error.errors(include_url=False, include_input=False, include_context=False)[0]
        param = ".".join(map(str, first["loc"])) if first["loc"] else None
        raise InvalidField(param, f"{first['msg']}.") from error
