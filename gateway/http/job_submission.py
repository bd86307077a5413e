"""Submits the jobs of an HTTP request, and abandons their generation when the client disconnects.

`gateway/jobs/submission.py` does the rest, without HTTP.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import AbstractAsyncContextManager
from functools import partial

from fastapi import Request

from gateway.admission.controller import AdmittedRequest
from gateway.http import rate_limits
from gateway.http.disconnect import disconnected
from gateway.http.gateway import Gateway
from gateway.jobs.generation import Generation
from gateway.jobs.keyed_billing import SCOPE_KEY, KeyedBilling
from router.messages import Job


def submit(
    request: Request, gateway: Gateway, admitted: AdmittedRequest, jobs: Sequence[Job], *, streamed: bool
) -> AbstractAsyncContextManager[Generation]:
    """Submit a request's `jobs` on entry of the context, yield their generation.

    A disconnect of the client abandons it.
    """
    allowance = rate_limits.allowance_of(request)
    leaving = partial(disconnected, request.receive)
    keyed: KeyedBilling | None = request.scope.get(SCOPE_KEY)
    return gateway.jobs.submit(admitted, jobs, allowance, streamed=streamed, disconnected=leaving, keyed=keyed)
