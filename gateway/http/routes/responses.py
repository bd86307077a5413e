"""Helpers of the routes: the origin of a request's jobs, and JSON responses from models."""

from __future__ import annotations

from fastapi import Request, Response

from gateway.http.gateway import Gateway
from gateway.jobs import dispatch
from gateway.openai.base import ApiModel


def origin_of(request: Request, gateway: Gateway, *, stream: bool) -> dispatch.Origin:
    """Return the origin (gateway, deadline, default limit) of a request's jobs."""
    settings = gateway.settings
    until = dispatch.deadline(request.headers, stream=stream, longest=settings.max_request_seconds)
    return dispatch.Origin(settings.gateway_id, until, settings.default_max_tokens)


def json_response(model: ApiModel) -> Response:
    """Return a response with a model as JSON."""
    return Response(model.model_dump_json(), media_type="application/json")
