"""Query parameters of the routes of stored responses."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field

from gateway.openai.organization.pagination import PageQuery
from gateway.openai.query_parameters import QueryParameters, QueryText

Include = Annotated[list[QueryText], Field(max_length=32)]


class ResponseQuery(QueryParameters):
    """Query parameters of `GET /v1/responses/{response_id}`."""

    include: Include = Field(default_factory=list)
    """Without effect: a stored response has all fields that it was created with."""


class InputItemQuery(PageQuery):
    """Query parameters of `GET /v1/responses/{response_id}/input_items`."""

    order: Literal["asc", "desc"] = "desc"
    """Order of the items, the last one first unless `asc`."""
    include: Include = Field(default_factory=list)
    """Without effect: items have all fields that they were sent with."""
