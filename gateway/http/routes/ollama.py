"""Routes of Ollama's API below `/api`: generation and embeddings by the same jobs as OpenAI's, and the served models.

The chat's own API is below `/api` too, at other paths.
"""

from __future__ import annotations

import asyncio
import hashlib
import time
from typing import Annotated, Any

from fastapi import APIRouter, Request, Response, Security

from auth_billing.access.principal import Principal
from auth_billing.access.scopes import Scope
from gateway.admission.controller import AdmittedRequest
from gateway.answers import embedding_answer
from gateway.answers.answer_parts import AnswerMetadata
from gateway.answers.collection import collect, collect_vectors
from gateway.answers.event_frames import compact
from gateway.dialects.ollama.answer import NANOSECONDS, OllamaAnswers, timestamp
from gateway.dialects.ollama.chat_request import OllamaChatRequest
from gateway.dialects.ollama.embed_request import OllamaEmbeddingsRequest, OllamaEmbedRequest
from gateway.dialects.ollama.generate_request import OllamaGenerateRequest
from gateway.dialects.ollama.models import (
    OllamaAnswerMessage,
    OllamaChatAnswer,
    OllamaEmbedding,
    OllamaEmbeddings,
    OllamaError,
    OllamaGenerateAnswer,
    OllamaModel,
    OllamaModelInfo,
    OllamaModelList,
    OllamaShowRequest,
    OllamaVersion,
)
from gateway.errors import InvalidRequest, ScopeMissing
from gateway.http.api_documentation import document_route
from gateway.http.authentication import public
from gateway.http.dependencies import AuthorisedRequest, BodySecurity, CurrentGateway, ModelReader
from gateway.http.dialect import JSON_LINES, Dialect
from gateway.http.gateway import Gateway
from gateway.http.http_errors import http_error
from gateway.http.job_submission import admit_chat, submit
from gateway.http.json_response import json_response
from gateway.http.routes.idempotent import IdempotentRoute
from gateway.http.sse import EventStream
from gateway.jobs.generation import Generation
from gateway.jobs.job_builder import Origin, build_completion_jobs, build_embedding_job
from gateway.openai.chat_completions import ChatCompletionRequest
from gateway.openai.embeddings import EmbeddingRequest
from router.messages import Job, Task
from router.model_registry import ModelInfo

VERSION = "0.12.0"
"""Version of Ollama whose API these routes have; clients compare it with what they need."""


def _body(error: Exception) -> dict[str, Any]:
    return {"error": http_error(error).message_of(error)}


OLLAMA = Dialect(
    error_body=_body,
    error_frame=lambda error: f"{compact(_body(error))}\n",
    media_type=JSON_LINES,
    done="",
    has_comments=False,
    typed_bodies=False,  # `curl -d` in Ollama's documentation and LiteLLM don't send application/json
)


class OllamaRoute(IdempotentRoute):
    """A route of Ollama's API, with its errors and streams."""

    dialect = OLLAMA


router = APIRouter(route_class=OllamaRoute)
_AuthorisedChat = Annotated[
    AuthorisedRequest[OllamaChatRequest], Security(BodySecurity(Scope.CHAT_COMPLETIONS, OllamaChatRequest))
]
_AuthorisedGenerate = Annotated[
    AuthorisedRequest[OllamaGenerateRequest], Security(BodySecurity(Scope.CHAT_COMPLETIONS, OllamaGenerateRequest))
]
_AuthorisedEmbed = Annotated[
    AuthorisedRequest[OllamaEmbedRequest], Security(BodySecurity(Scope.EMBEDDINGS, OllamaEmbedRequest))
]
_AuthorisedEmbeddings = Annotated[
    AuthorisedRequest[OllamaEmbeddingsRequest], Security(BodySecurity(Scope.EMBEDDINGS, OllamaEmbeddingsRequest))
]
_AuthorisedShow = Annotated[
    AuthorisedRequest[OllamaShowRequest], Security(BodySecurity(Scope.MODELS_READ, OllamaShowRequest))
]


@router.post("/api/chat", **document_route(OllamaChatAnswer, body=OllamaChatRequest, lines=True, error=OllamaError))
async def chat(request: Request, authorised: _AuthorisedChat) -> Response:
    """Generate the assistant's next message of a conversation, by default as lines of JSON (`POST /api/chat`)."""
    caller, body, gateway = authorised
    if body.chat is None:
        model = gateway.catalogue.find(body.model, caller.models)
        message = OllamaAnswerMessage(content="")
        return json_response(OllamaChatAnswer(**_loaded(model), message=message))
    admitted, job = await admit_chat(request, gateway, caller, body.chat)
    return await _answer(request, gateway, admitted, job, streamed=body.streams, chat=True)


@router.post(
    "/api/generate", **document_route(OllamaGenerateAnswer, body=OllamaGenerateRequest, lines=True, error=OllamaError)
)
async def generate(request: Request, authorised: _AuthorisedGenerate) -> Response:
    """Answer a prompt, or continue it if it is raw, by default as lines of JSON (`POST /api/generate`)."""
    caller, body, gateway = authorised
    if body.translated is None:
        return json_response(
            OllamaGenerateAnswer(**_loaded(gateway.catalogue.find(body.model, caller.models)), response="")
        )
    if isinstance(body.translated, ChatCompletionRequest):
        admitted, job = await admit_chat(request, gateway, caller, body.translated)
    else:
        if not caller.may(Scope.COMPLETIONS):
            raise ScopeMissing(Scope.COMPLETIONS)
        admitted = await gateway.admission.admit(caller, body.translated)
        [job] = build_completion_jobs(body.translated, admitted, Origin.of(gateway.settings))
    return await _answer(request, gateway, admitted, job, streamed=body.streams, chat=False)


@router.post("/api/embed", **document_route(OllamaEmbeddings, body=OllamaEmbedRequest, error=OllamaError))
async def embed(request: Request, authorised: _AuthorisedEmbed) -> Response:
    """Return an embedding (a vector of length one) for each input, in order of the inputs (`POST /api/embed`)."""
    caller, body, gateway = authorised
    vectors, generation = await _embed(request, gateway, caller, body.embedding)
    ending = {
        "model": generation.model,
        "total_duration": int(generation.seconds * NANOSECONDS),
        "load_duration": 0,
        "prompt_eval_count": generation.usage.prompt_tokens,
    }
    return Response(f'{compact(ending)[:-1]},"embeddings":[{",".join(vectors)}]}}', media_type="application/json")


@router.post("/api/embeddings", **document_route(OllamaEmbedding, body=OllamaEmbeddingsRequest, error=OllamaError))
async def embeddings(request: Request, authorised: _AuthorisedEmbeddings) -> Response:
    """Return the embedding (a vector of length one) of one text (`POST /api/embeddings`)."""
    caller, body, gateway = authorised
    [vector], _ = await _embed(request, gateway, caller, body.embedding)
    return Response(f'{{"embedding":{vector}}}', media_type="application/json")


@router.get("/api/tags", **document_route(OllamaModelList, error=OllamaError))
async def tags(caller: ModelReader, gateway: CurrentGateway) -> Response:
    """List the models that generate or embed text and that the caller may use (`GET /api/tags`)."""
    served = gateway.catalogue.listed(caller.models)
    return json_response(
        OllamaModelList(models=[_model(name, model) for name, model in served if model.task in _CAPABILITIES])
    )


@router.post("/api/show", **document_route(OllamaModelInfo, body=OllamaShowRequest, error=OllamaError))
async def show(authorised: _AuthorisedShow) -> Response:
    """Return the context length and the capabilities of a model (`POST /api/show`)."""
    caller, body, gateway = authorised
    model = gateway.catalogue.find(body.model, caller.models)
    info: dict[str, str | int] = {"general.architecture": "headrace", "headrace.context_length": model.max_model_len}
    if model.dimensions:
        info["headrace.embedding_length"] = model.dimensions
    capabilities = [*_CAPABILITIES.get(model.task, ()), *(["vision"] if model.reads_images else [])]
    return json_response(
        OllamaModelInfo(modified_at=timestamp(model.created), model_info=info, capabilities=capabilities)
    )


@router.get("/api/version", **document_route(OllamaVersion, error=OllamaError))
@public
async def version() -> Response:
    """Return the version of Ollama's API that these routes have (`GET /api/version`)."""
    return json_response(OllamaVersion(version=VERSION))


@router.get("/api/ps", include_in_schema=False)
@router.post("/api/pull", include_in_schema=False)
@router.post("/api/push", include_in_schema=False)
@router.post("/api/create", include_in_schema=False)
@router.post("/api/copy", include_in_schema=False)
@router.delete("/api/delete", include_in_schema=False)
@router.post("/api/blobs/{digest}", include_in_schema=False)
async def refuse(caller: ModelReader) -> Response:
    """Answer 400: the operator manages the models (`/api/pull`, `/api/push`, `/api/create`, ...)."""
    raise InvalidRequest(
        "Models are managed by the operator here: /api/tags lists them, and they can't be pulled, created or deleted.",
        code="unsupported_endpoint",
    )


async def _answer(
    request: Request, gateway: Gateway, admitted: AdmittedRequest, job: Job, *, streamed: bool, chat: bool
) -> Response:
    answer = OllamaAnswers(AnswerMetadata.of(job, admitted), chat)
    async with submit(request, gateway, admitted, [job], streamed=streamed) as generation:
        if streamed:
            await generation.wait_for_first_reply(gateway.settings.header_delay)
            return EventStream(gateway, generation, answer.events(generation), OLLAMA)
        [choice] = await collect(generation)
        return json_response(answer.body(choice, generation))


async def _embed(
    request: Request, gateway: Gateway, caller: Principal, body: EmbeddingRequest
) -> tuple[list[str], Generation]:
    """Return the vectors of the inputs as JSON arrays, and the generation that computed them."""
    admitted = await gateway.admission.admit_embeddings(caller, body)
    job = build_embedding_job(body, admitted, Origin.of(gateway.settings))
    async with submit(request, gateway, admitted, [job], streamed=False) as generation:
        vectors = await collect_vectors(generation)
    return await asyncio.to_thread(lambda: list(map(embedding_answer.numbers, vectors))), generation


_CAPABILITIES = {Task.GENERATE: ("completion", "tools"), Task.EMBED: ("embedding",)}
"""Capabilities in Ollama's words, by task."""


def _loaded(model: ModelInfo) -> dict[str, Any]:
    """Return the fields of the answer to a request that only loads a model."""
    created = timestamp(int(time.time()))
    return {"model": model.name, "created_at": created, "done_reason": "load", "done": True}


def _model(name: str, model: ModelInfo) -> OllamaModel:
    digest = hashlib.sha256(model.name.encode()).hexdigest()
    return OllamaModel(name=name, model=name, modified_at=timestamp(model.created), digest=digest)
