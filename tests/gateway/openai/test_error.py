"""The documented model of error bodies is the shape of the bodies that are sent."""

from __future__ import annotations

from gateway.errors import BrokerDown, InvalidRequest
from gateway.http.http_errors import error_body
from gateway.openai.error import ErrorBody, ErrorDetail


def test_error_bodies_match_their_model() -> None:
    for error in (InvalidRequest("No.", param="n"), BrokerDown(), RuntimeError("secret")):
        body = error_body(error)
        assert body["error"].keys() == ErrorDetail.model_fields.keys()
        assert ErrorBody.model_validate(body).model_dump() == body
