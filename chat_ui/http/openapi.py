"""Generates the OpenAPI document of `/api`; `python -m chat_ui.http.openapi` prints it, for the page's generated types.

FastAPI describes the response models; request bodies are added here, from the dependencies that read them
(`request_bodies.body_of`).
"""

from __future__ import annotations

import json
import sys
from typing import Any

from fastapi import FastAPI
from fastapi.dependencies.models import Dependant
from fastapi.openapi.utils import get_openapi
from fastapi.routing import iter_route_contexts
from pydantic.json_schema import models_json_schema

from chat_ui.http.api import app_with_routes
from chat_ui.http.request_bodies import BODY_MODEL, Body, EmptyBody

_SCHEMAS = "#/components/schemas/"


def describe(app: FastAPI) -> dict[str, Any]:
    """Return the OpenAPI document of the chat API's application as a JSON object: its routes, with request bodies."""
    document = get_openapi(
        title="Headrace chat", version="1", summary="What the web chat's page calls", routes=app.routes
    )
    bodies: set[type[Body]] = set()
    for route in iter_route_contexts(app.routes):
        for method in route.methods or ():
            model = _body_model(route.dependant)
            if model is None or model is EmptyBody:
                continue
            bodies.add(model)
            schema = {"$ref": _SCHEMAS + model.__name__}
            operation = document["paths"][route.path][method.lower()]
            operation["requestBody"] = {"required": True, "content": {"application/json": {"schema": schema}}}
    ordered = sorted(bodies, key=lambda each: each.__name__)
    _, schemas = models_json_schema([(each, "validation") for each in ordered], ref_template=_SCHEMAS + "{model}")
    document["components"]["schemas"] |= schemas["$defs"]
    return document


def _body_model(dependant: Dependant) -> type[Body] | None:
    """Return the body model that a route's dependencies read; `None` if it reads no body."""
    found: type[Body] | None = getattr(dependant.call, BODY_MODEL, None)
    return found or next((model for each in dependant.dependencies if (model := _body_model(each)) is not None), None)


def main() -> None:
    """Print the OpenAPI document of the chat API to stdout, as JSON; the command `python -m chat_ui.http.openapi`."""
    json.dump(describe(app_with_routes()), sys.stdout, indent=1, sort_keys=True)
    sys.stdout.write("\n")


if __name__ == "__main__":
    main()
