"""JSON responses from response models."""

from __future__ import annotations

from gateway.http.json_response import json_response
from gateway.openai.models import ModelList


def test_a_model_becomes_json() -> None:
    response = json_response(ModelList(data=[]))
    assert response.headers["content-type"] == "application/json"
    assert bytes(response.body) == b'{"object":"list","data":[]}'
