"""Route of `POST /v1/embeddings`: one job for all inputs of a request."""

from __future__ import annotations

import asyncio

from fastapi import APIRouter, Request, Response

from gateway.answers import embedding_answer
from gateway.answers.collection import collect_vectors
from gateway.http.api_documentation import document_route
from gateway.http.dependencies import AuthorisedEmbeddings
from gateway.http.job_submission import submit
from gateway.http.routes.idempotent import IdempotentRoute
from gateway.jobs.job_builder import Origin, build_embedding_job
from gateway.openai.embeddings import EmbeddingList, EmbeddingRequest

router = APIRouter(route_class=IdempotentRoute)


@router.post("/v1/embeddings", **document_route(EmbeddingList, body=EmbeddingRequest))
async def create_embeddings(request: Request, authorised: AuthorisedEmbeddings) -> Response:
    """Return an embedding (a vector of length one) for each input, in order of the inputs (`POST /v1/embeddings`)."""
    caller, body, gateway = authorised
    admitted = await gateway.admission.admit_embeddings(caller, body)
    job = build_embedding_job(body, admitted, Origin.of(gateway.settings))
    async with submit(request, gateway, admitted, [job], streamed=False) as generation:
        vectors = await collect_vectors(generation)
    body_bytes = await asyncio.to_thread(
        embedding_answer.write,
        vectors,
        model=admitted.model.name,
        usage=generation.usage,
        as_base64=body.encoding_format == "base64",
    )
    return Response(body_bytes, media_type="application/json")
