"""The deadline of an HTTP request's jobs."""

from __future__ import annotations

import time

from fastapi import Request

from gateway.http.job_submission import origin_of
from tests.gateway.conftest import SetStage


async def test_the_clients_timeout_bounds_a_whole_answer_only(set_stage: SetStage) -> None:
    stage = await set_stage(max_request_seconds=100, default_max_tokens=77)
    request = Request({"type": "http", "headers": [(b"x-stainless-read-timeout", b"10")]})
    whole, stream = (origin_of(request, stage.gateway, stream=stream) for stream in (False, True))
    assert (whole.gateway_id, whole.default_max_tokens) == ("gateway-1", 77)
    assert 9 < whole.deadline - time.time() < 12
    assert 99 < stream.deadline - time.time() < 101
