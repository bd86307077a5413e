"""Routes of `GET /v1/models` and `/v1/models/{id}`: models served within the last hour that the caller may use.

An id may contain slashes.
"""

from __future__ import annotations

from fastapi import APIRouter, Response

from gateway.http.api_documentation import document_route
from gateway.http.dependencies import CurrentGateway, ModelReader
from gateway.http.json_response import json_response
from gateway.openai.models import Model, ModelList
from router.model_registry import ModelInfo

router = APIRouter()


@router.get("/v1/models", **document_route(ModelList))
async def list_models(caller: ModelReader, gateway: CurrentGateway) -> Response:
    """List the models that the caller may use and that were served within the last hour, under all their names.

    Answers `GET /v1/models`.
    """
    return json_response(
        ModelList(data=[_model(name, model) for name, model in gateway.catalogue.listed(caller.models)])
    )


@router.get("/v1/models/{name:path}", **document_route(Model))
async def retrieve_model(name: str, caller: ModelReader, gateway: CurrentGateway) -> Response:
    """Return one model that the caller may use, by its name or alias (`GET /v1/models/{name}`)."""
    return json_response(_model(name, gateway.catalogue.find(name, caller.models)))


def _model(name: str, model: ModelInfo) -> Model:
    return Model(
        id=name,
        root=model.name,
        created=int(model.created),
        max_model_len=model.max_model_len,
        task=model.task,
        image_sizes=model.image_sizes or None,
        input_modalities=["text", "image"] if model.reads_images else ["text"],
        test_time_compute=True if model.searches else None,
        tokenize=True if model.tokenises else None,
    )
