"""Generates the OpenAPI document of `/api`; `python -m chat_ui.openapi` prints it, for the page's TypeScript types.

FastAPI describes the response models; request bodies are added here, from the dependencies that read them
(`bodies.body_of`).
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

from chat_ui.http.api import routed_app
from chat_ui.http.request_bodies import KIND, Body, EmptyBody

_SCHEMAS = "#/components/schemas/"


def describe(app: FastAPI) -> dict[str, Any]:
    """Return the OpenAPI document of an application's routes."""
    document = get_openapi(
        title="Headrace chat", version="1", summary="What the web chat's page calls", routes=app.routes
    )
    bodies: set[type[Body]] = set()
    for route in iter_route_contexts(app.routes):
        for method in route.methods or ():
            kind = _body(route.dependant)
            if kind is None or kind is EmptyBody:
                continue
            bodies.add(kind)
            schema = {"$ref": _SCHEMAS + kind.__name__}
            operation = document["paths"][route.path][method.lower()]
            operation["requestBody"] = {"required": True, "content": {"application/json": {"schema": schema}}}
    ordered = sorted(bodies, key=lambda each: each.__name__)
    _, schemas = models_json_schema([(each, "validation") for each in ordered], ref_template=_SCHEMAS + "{model}")
    document["components"]["schemas"] |= schemas["$defs"]
    return document


def _body(dependant: Dependant) -> type[Body] | None:
    """Return the body model that a route's dependencies read; `None` if it reads no body."""
    found: type[Body] | None = getattr(dependant.call, KIND, None)
    return found or next((kind for each in dependant.dependencies if (kind := _body(each)) is not None), None)


def main() -> None:
    """Print the document to stdout."""
    json.dump(describe(routed_app()), sys.stdout, indent=1, sort_keys=True)
    sys.stdout.write("\n")


if __name__ == "__main__":
    main()
