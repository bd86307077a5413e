"""Request and response models of `/v1/organization/projects/{project_id}/moderation` (an extension)."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field, StringConstraints

from auth_billing.access.model_access import MAX_MODEL_NAME
from auth_billing.people.moderation_policies import MAX_CATEGORIES, MAX_CATEGORY_NAME, ModerationPolicy
from gateway.openai.base import ApiModel, RequestBody

Category = Annotated[str, StringConstraints(min_length=1, max_length=MAX_CATEGORY_NAME)]


class ProjectModeration(ApiModel):
    """Moderation of a project: what is checked, by which model, and which categories block."""

    object: Literal["project.moderation"] = "project.moderation"
    model: str | None
    """Name of the moderation model; null: nothing is checked."""
    categories: list[str] | None
    """Categories that block; null: all."""
    prompts: bool
    answers: bool

    @classmethod
    def of(cls, policy: ModerationPolicy | None) -> ProjectModeration:
        """Return a stored policy as a response; `None` is that of a project without one."""
        if policy is None:
            return cls(model=None, categories=None, prompts=False, answers=False)
        categories = None if policy.categories is None else sorted(policy.categories)
        return cls(model=policy.model, categories=categories, prompts=policy.prompts, answers=policy.answers)


class ProjectModerationUpdate(RequestBody):
    """Body of `POST /v1/organization/projects/{project_id}/moderation`."""

    model: Annotated[str, StringConstraints(min_length=1, max_length=MAX_MODEL_NAME)]
    """Name or alias of a classifier, or `moderation-rules`."""
    categories: Annotated[list[Category], Field(min_length=1, max_length=MAX_CATEGORIES)] | None = None
    """Categories that block; default all."""
    prompts: bool = True
    """Whether prompts are checked."""
    answers: bool = True
    """Whether answers are checked."""


class ProjectModerationDeleted(ApiModel):
    """Confirmation that a project's prompts and answers are not checked any more."""

    object: Literal["project.moderation.deleted"] = "project.moderation.deleted"
    deleted: Literal[True] = True
