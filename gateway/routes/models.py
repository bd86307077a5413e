"""`GET /v1/models`, `GET /v1/models/{id}`; an id may contain slashes."""

from __future__ import annotations

from fastapi import APIRouter, Response

from gateway.api_description import described
from gateway.authenticate import Caller
from gateway.dependencies import TheGateway
from gateway.errors import ModelNotFound
from gateway.openai.models import Model, ModelList
from gateway.routes.responses import json_response
from router.registry import ModelInfo

router = APIRouter()


@router.get("/v1/models", **described(ModelList))
async def list_models(_caller: Caller, gateway: TheGateway) -> Response:
    """The models that are served, or were within the hour."""
    models = sorted(gateway.models.models(), key=lambda model: model.name)
    return json_response(ModelList(data=[_model(model) for model in models]))


@router.get("/v1/models/{name:path}", **described(Model))
async def retrieve_model(name: str, _caller: Caller, gateway: TheGateway) -> Response:
    """One model."""
    model = gateway.models.find(name)
    if model is None:
        raise ModelNotFound(f"The model '{name[:128]}' does not exist or you do not have access to it.", param="model")
    return json_response(_model(model))


def _model(model: ModelInfo) -> Model:
    return Model(id=model.name, created=int(model.created), max_model_len=model.max_model_len)
