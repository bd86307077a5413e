"""All bodies that administration takes, for our OpenAPI document."""

from __future__ import annotations

from gateway.openai.base import RequestBody
from gateway.openai.organization.projects import ProjectCreate, ProjectUpdate
from gateway.openai.organization.users import InviteCreate, UserUpdate

BODIES: tuple[type[RequestBody], ...] = (ProjectCreate, ProjectUpdate, UserUpdate, InviteCreate)
