"""JSON responses of the OpenAI API's routes."""

from __future__ import annotations

from fastapi import Response

from gateway.openai.base import ApiModel


def json_response(model: ApiModel) -> Response:
    """Return a 200 response whose body is `model` as JSON."""
    return Response(model.model_dump_json(), media_type="application/json")
