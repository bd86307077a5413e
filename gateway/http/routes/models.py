"""Routes of `/v1/models` and `/v1/models/{id}`: models served within the last hour that the caller may use.

An id may contain slashes. A request with the header `anthropic-version` is answered as by Anthropic's API.
"""

from __future__ import annotations

from datetime import UTC, datetime

from fastapi import APIRouter, Request, Response

from gateway.dialects.anthropic.models import AnthropicModel, AnthropicModelList
from gateway.errors import ModelNotDeletable
from gateway.http.api_documentation import document_route
from gateway.http.dependencies import CurrentGateway, ModelReader
from gateway.http.json_response import json_response
from gateway.openai.models import Model, ModelDeleted, ModelList
from router.model_registry import ModelInfo

ANTHROPIC_VERSION = "anthropic-version"

router = APIRouter()


@router.get("/v1/models", **document_route(ModelList))
async def list_models(request: Request, caller: ModelReader, gateway: CurrentGateway) -> Response:
    """List the models that the caller may use and that were served within the last hour, under all their names.

    Answers `GET /v1/models`.
    """
    listed = gateway.catalogue.listed(caller.models)
    if ANTHROPIC_VERSION in request.headers:
        models = [_anthropic_model(name, model) for name, model in listed]
        first, last = (models[0].id, models[-1].id) if models else (None, None)
        return json_response(AnthropicModelList(data=models, first_id=first, last_id=last))
    return json_response(ModelList(data=[_model(name, model) for name, model in listed]))


@router.get("/v1/models/{name:path}", **document_route(Model))
async def retrieve_model(request: Request, name: str, caller: ModelReader, gateway: CurrentGateway) -> Response:
    """Return one model that the caller may use, by its name or alias (`GET /v1/models/{name}`)."""
    model = gateway.catalogue.find(name, caller.models)
    return json_response((_anthropic_model if ANTHROPIC_VERSION in request.headers else _model)(name, model))


@router.delete("/v1/models/{name:path}", **document_route(ModelDeleted))
async def delete_model(name: str, caller: ModelReader, gateway: CurrentGateway) -> Response:
    """Refuse to delete a model (`DELETE /v1/models/{name}`): projects have no models of their own.

    Raises:
        ModelNotFound: The model is unknown, or the caller may not use it.
        ModelNotDeletable: The platform serves it.
    """
    gateway.catalogue.find(name, caller.models)
    raise ModelNotDeletable


def _model(name: str, model: ModelInfo) -> Model:
    return Model(
        id=name,
        root=model.name,
        created=int(model.created),
        max_model_len=model.max_model_len,
        task=model.task,
        image_sizes=model.image_sizes or None,
        labels=list(model.labels) or None,
        input_modalities=["text", "image"] if model.reads_images else ["text"],
        test_time_compute=True if model.searches else None,
        tokenize=True if model.tokenises else None,
    )


def _anthropic_model(name: str, model: ModelInfo) -> AnthropicModel:
    created = datetime.fromtimestamp(int(model.created), UTC).isoformat().replace("+00:00", "Z")
    return AnthropicModel(id=name, display_name=name, created_at=created, max_input_tokens=model.max_model_len)
