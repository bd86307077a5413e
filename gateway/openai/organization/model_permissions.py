"""Request and response models of `/v1/organization/.../model_permissions`, from OpenAI's specification.

Headrace has the same permissions for roles and for users (an extension).
"""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field, StringConstraints

from auth_billing.access.model_access import MAX_MODEL_NAME, MAX_MODELS
from gateway.openai.base import ApiModel, RequestBody

Mode = Literal["allow_list", "deny_list"]


class ModelPermissions(ApiModel):
    """The models that a project, a role or a user may use. A deny list without names permits every model."""

    object: str
    """`project.model_permissions`, `role.model_permissions` or `user.model_permissions`."""
    mode: Mode
    model_ids: list[str]


class ModelPermissionsUpdate(RequestBody):
    """Body of `POST .../model_permissions`."""

    mode: Mode
    """`allow_list`: only these models may be used; `deny_list`: all others."""
    model_ids: Annotated[
        list[Annotated[str, StringConstraints(min_length=1, max_length=MAX_MODEL_NAME)]], Field(max_length=MAX_MODELS)
    ]
    """Names or aliases of models, in full."""


class ModelPermissionsDeleted(ApiModel):
    """Confirmation that every model may be used again."""

    object: str
    """The `object` of the permissions, with `.deleted`."""
    deleted: Literal[True] = True
