"""Route of `POST /v1/images/generations`: one job for all images of a request. Edits and variations are refused."""

from __future__ import annotations

import asyncio
import time
from contextlib import nullcontext
from functools import partial

from fastapi import APIRouter, Request, Response

from gateway.answers import image_answer
from gateway.answers.collection import collect_images
from gateway.answers.stored_images import reserved_space, store_images
from gateway.errors import InvalidRequest
from gateway.http.api_documentation import document_route
from gateway.http.dependencies import AuthorisedImages, ImageCaller
from gateway.http.job_submission import submit
from gateway.http.routes.blobs import address_of
from gateway.http.routes.idempotent import IdempotentRoute
from gateway.jobs.job_builder import Origin, build_image_job
from gateway.openai.images import ImageList, ImageRequest
from router.messages import ImagePrompt
from stored_objects.objects.records import ObjectOwner

router = APIRouter(route_class=IdempotentRoute)
not_offered = APIRouter()


@router.post("/v1/images/generations", **document_route(ImageList, body=ImageRequest))
async def create_images(request: Request, authorised: AuthorisedImages) -> Response:
    """Draw images of a prompt, and return them when all of them are drawn (`POST /v1/images/generations`)."""
    caller, body, gateway = authorised
    admitted = await gateway.admission.admit_images(caller, body)
    job = build_image_job(body, admitted, Origin.of(gateway.settings))
    as_urls, owner = body.response_format == "url", ObjectOwner(caller.tenant, caller.requester)
    async with (
        submit(request, gateway, admitted, [job], streamed=False) as generation,
        reserved_space(gateway.objects, owner, job) if as_urls else nullcontext(),
    ):
        images = await collect_images(generation)
    if as_urls:
        images = await store_images(gateway.objects, owner, images, partial(address_of, request))
    size = job.prompt.size if isinstance(job.prompt, ImagePrompt) else ""
    body_bytes = await asyncio.to_thread(image_answer.write, images, created=int(time.time()), size=size)
    return Response(body_bytes, media_type="application/json")


@not_offered.post("/v1/images/edits", include_in_schema=False)
@not_offered.post("/v1/images/variations", include_in_schema=False)
async def refuse_images(caller: ImageCaller) -> Response:
    """Answer 400: no worker computes edits or variations of images (`POST /v1/images/edits, /v1/images/variations`)."""
    raise InvalidRequest(
        "Edits and variations of images are not available here: use /v1/images/generations.",
        code="unsupported_endpoint",
    )
