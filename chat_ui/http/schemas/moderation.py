"""Request and response models of the routes that set the checks of projects' prompts and answers."""

from __future__ import annotations

from typing import Annotated

from fastapi import Depends
from pydantic import Field, StringConstraints

from auth_billing.access.model_access import MAX_MODEL_NAME
from auth_billing.people.moderation_policies import MAX_CATEGORIES, MAX_CATEGORY_NAME
from chat_ui.http.request_bodies import Body, body_of
from chat_ui.http.schemas.base import Schema


class ProjectModeration(Schema):
    """What is checked of a project's requests, by which model, and which categories block."""

    project: str
    """Id of the project."""
    name: str
    """Name of the project."""
    model: str | None
    """Name of the moderation model; `null`: nothing is checked."""
    categories: list[str] | None
    """Categories that block; `null`: every category."""
    prompts: bool
    answers: bool


class ModerationSettings(Schema):
    """The checks of the organisation's projects in use, and what checks can be made of."""

    projects: list[ProjectModeration]
    models: list[str]
    """Names of the classifiers that are served, and of the operator's rules."""
    categories: list[str]
    """Categories that can be found."""


class ModerationBody(Body):
    """The checks of a project; without a model nothing is checked."""

    project: Annotated[str, StringConstraints(min_length=1, max_length=160)]
    model: Annotated[str, StringConstraints(min_length=1, max_length=MAX_MODEL_NAME)] | None = None
    categories: (
        Annotated[
            list[Annotated[str, StringConstraints(min_length=1, max_length=MAX_CATEGORY_NAME)]],
            Field(min_length=1, max_length=MAX_CATEGORIES),
        ]
        | None
    ) = None
    prompts: bool = True
    answers: bool = True


# Dependency of a route: reads and validates a request body.
ModerationJson = Annotated[ModerationBody, Depends(body_of(ModerationBody))]
