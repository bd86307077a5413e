"""Creates the JSON responses of the gateway's routes from pydantic models."""

from __future__ import annotations

from fastapi import Response

from gateway.openai.base import ApiModel


def json_response(model: ApiModel) -> Response:
    """Create an HTTP response of status 200 whose body is `model` as JSON."""
    return Response(model.model_dump_json(), media_type="application/json")
