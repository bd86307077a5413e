"""Query parameters of the routes of stored responses."""

from __future__ import annotations

from typing import Annotated, Literal, Self

from pydantic import Field, model_validator

from gateway.openai.base import conflict
from gateway.openai.pagination import PageQuery
from gateway.openai.query_parameters import QueryBool, QueryInt, QueryParameters, QueryText

Include = Annotated[list[QueryText], Field(max_length=32)]


class ResponseQuery(QueryParameters):
    """Query parameters of `GET /v1/responses/{response_id}`."""

    include: Include = Field(default_factory=list)
    """Without effect: a stored response has all fields that it was created with."""
    stream: QueryBool | None = None
    """Send the events of a background response as Server-Sent Events, those to come too."""
    starting_after: Annotated[QueryInt, Field(ge=0)] | None = None
    """Sequence number of the event after which the stream begins; needs `stream`."""
    include_obfuscation: QueryBool | None = None
    """Without effect: no padding is sent."""

    @model_validator(mode="after")
    def _consistent(self) -> Self:
        if self.starting_after is not None and not self.stream:
            raise conflict("starting_after", "it is only allowed when 'stream' is true")
        return self


class InputItemQuery(PageQuery):
    """Query parameters of `GET /v1/responses/{response_id}/input_items`."""

    order: Literal["asc", "desc"] = "desc"
    """Order of the items, the last one first unless `asc`."""
    include: Include = Field(default_factory=list)
    """Without effect: items have all fields that they were sent with."""
