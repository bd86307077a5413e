"""Helpers of the generating routes: the origin of jobs, their submission, and JSON responses."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import AbstractAsyncContextManager
from functools import partial

from fastapi import Request, Response

from gateway.admission.controller import AdmittedRequest
from gateway.http import rate_limits
from gateway.http.disconnect import disconnected
from gateway.http.gateway import Gateway
from gateway.jobs.generation import Generation
from gateway.jobs.job_builder import Origin, deadline
from gateway.openai.base import ApiModel
from router.messages import Job


def origin_of(request: Request, gateway: Gateway, *, stream: bool) -> Origin:
    """Return what a request's jobs have in common: this gateway's id, their deadline, the default output limit."""
    settings = gateway.settings
    until = deadline(request.headers, stream=stream, longest=settings.max_request_seconds)
    return Origin(settings.gateway_id, until, settings.default_max_tokens)


def submit(
    request: Request, gateway: Gateway, admitted: AdmittedRequest, jobs: Sequence[Job], *, streamed: bool
) -> AbstractAsyncContextManager[Generation]:
    """Submit an HTTP request's jobs: the block gets their generation, abandoned when the client disconnects."""
    allowance = rate_limits.allowance_of(request)
    leaving = partial(disconnected, request.receive)
    return gateway.jobs.submit(admitted, jobs, allowance, streamed=streamed, disconnected=leaving)


def json_response(model: ApiModel) -> Response:
    """Return a 200 response whose body is `model` as JSON."""
    return Response(model.model_dump_json(), media_type="application/json")
