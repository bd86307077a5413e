"""Request and response models of the routes that set which models projects, roles and members may use."""

from __future__ import annotations

from typing import Annotated, Literal

from fastapi import Depends
from pydantic import Field, StringConstraints

from auth_billing.access.model_access import MAX_MODEL_NAME, MAX_MODELS
from chat_ui.http.request_bodies import Body, body_of
from chat_ui.http.schemas.base import Schema

Kind = Literal["project", "role", "user"]
Mode = Literal["allow_list", "deny_list"]


class ModelPolicy(Schema):
    """The only models that a project, a role or a member may use, or those that they may not use."""

    kind: Kind
    id: str
    """Id of the project or the user, or the role's name."""
    mode: Mode
    model_ids: list[str]


class ModelAccess(Schema):
    """The organisation's model policies, and the models that can be named."""

    policies: list[ModelPolicy]
    """A project, role or member that is not listed may use every model."""
    models: list[str]
    """Names of the models that were served within the last hour."""


class ModelPolicyBody(Body):
    """The models of a project, role or member; a deny list without models permits all of them."""

    kind: Kind
    id: Annotated[str, StringConstraints(min_length=1, max_length=160)]
    mode: Mode
    model_ids: Annotated[
        list[Annotated[str, StringConstraints(min_length=1, max_length=MAX_MODEL_NAME)]], Field(max_length=MAX_MODELS)
    ]


# Dependency of a route: reads and validates a request body.
ModelPolicyJson = Annotated[ModelPolicyBody, Depends(body_of(ModelPolicyBody))]
