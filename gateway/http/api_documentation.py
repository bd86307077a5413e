"""Builds the OpenAPI document of the gateway's `/openapi.json`; routes declare their models with `document_route`.

Bodies are not read by FastAPI (`dependencies.py`), so their models are added to the document here.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from fastapi import Response
from fastapi.openapi.utils import get_openapi
from pydantic.json_schema import models_json_schema
from starlette.routing import BaseRoute

from gateway.dialects.documentation import OTHER_ENDPOINTS
from gateway.http.dialect import EVENT_STREAM, JSON_LINES
from gateway.mcp.messages import McpRequest
from gateway.openai.base import ApiModel, RequestBody
from gateway.openai.compatibility import ENDPOINTS
from gateway.openai.error import ErrorBody
from gateway.openai.organization.request_bodies import BODIES
from gateway.openai.query_parameters import QueryParameters, document_parameters

_SCHEMAS = "#/components/schemas/"
_FILE = {"type": "string", "format": "binary"}


def _errors(body: type[ApiModel]) -> dict[int | str, dict[str, Any]]:
    return {
        "4XX": {"model": body, "description": "Error of the request"},
        "5XX": {"model": body, "description": "Error of the service"},
    }


def document_route(
    answer: type[ApiModel],
    *,
    body: type[RequestBody] | None = None,
    query: type[QueryParameters] | None = None,
    streamed: type[ApiModel] | None = None,
    done: str = "; `[DONE]` in the last event",
    lines: bool = False,
    error: type[ApiModel] = ErrorBody,
) -> dict[str, Any]:
    """Return the arguments of a FastAPI route that document its body, query, response and stream events in OpenAPI.

    `done` describes the end of its stream; with `lines` the stream has lines of JSON like `answer`. `error` is the body
    of its errors.
    """
    content: dict[str, Any] = {}
    if streamed is not None:
        # Before OpenAPI 3.2 there is no schema of an event stream, so this is the schema of one event.
        data = {"type": "string", "description": f"A {streamed.__name__}{done}"}
        event = {"type": "object", "properties": {"data": data}, "required": ["data"]}
        content[EVENT_STREAM] = {"schema": event}
    if lines:
        content[JSON_LINES] = {"schema": {"type": "string", "description": f"Lines of JSON, each a {answer.__name__}"}}
    arguments: dict[str, Any] = {
        "responses": {200: {"model": answer, "description": "The response", "content": content}, **_errors(error)}
    }
    extra: dict[str, Any] = {}
    if body is not None:
        schema = {"$ref": _SCHEMAS + body.__name__}
        extra["requestBody"] = {"required": True, "content": {"application/json": {"schema": schema}}}
    if query is not None:
        extra["parameters"] = document_parameters(query)
    arguments["openapi_extra"] = extra
    return arguments


def document_form_route(answer: type[ApiModel], *, form: type[RequestBody] | None = None, file: str) -> dict[str, Any]:
    """Return the arguments of a FastAPI route that document its response and its form.

    The form has the fields of the model `form`, and in the field `file` a file.
    """
    schema = {} if form is None else form.model_json_schema(ref_template=_SCHEMAS + "{model}")
    properties = {file: _FILE, **schema.get("properties", {})}
    body = {"type": "object", "properties": properties, "required": [file, *schema.get("required", [])]}
    arguments = document_route(answer)
    arguments["openapi_extra"]["requestBody"] = {"required": True, "content": {"multipart/form-data": {"schema": body}}}
    return arguments


def document_file_route(media_types: Sequence[str], *, query: type[QueryParameters] | None = None) -> dict[str, Any]:
    """Return the arguments of a FastAPI route that document its `query`, and as response a file of `media_types`."""
    content = {each.partition(";")[0]: {"schema": _FILE} for each in media_types}
    return {
        "responses": {200: {"description": "The file", "content": content}, **_errors(ErrorBody)},
        "response_class": Response,
        "openapi_extra": {} if query is None else {"parameters": document_parameters(query)},
    }


def openapi_document(routes: Sequence[BaseRoute]) -> dict[str, Any]:
    """Build the OpenAPI document of `routes`, with the models of all request bodies, as JSON values."""
    document = get_openapi(title="Headrace", version="1", summary="An OpenAI-compatible API", routes=routes)
    bodies: list[type[RequestBody]] = [*ENDPOINTS.values(), *OTHER_ENDPOINTS.values(), *BODIES, McpRequest]
    _, schemas = models_json_schema([(body, "validation") for body in bodies], ref_template=_SCHEMAS + "{model}")
    document["components"]["schemas"] |= schemas["$defs"]
    return document
