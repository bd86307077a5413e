"""Route of `GET /openapi.json`: the public description of this API, for generators of clients and tests."""

from __future__ import annotations

from fastapi import APIRouter, FastAPI, Request, Response
from fastapi.responses import JSONResponse

from gateway.http.api_documentation import openapi_document
from gateway.http.authentication import public

router = APIRouter()


@router.get("/openapi.json", include_in_schema=False)
@public
async def openapi(request: Request) -> Response:
    """Return this API's OpenAPI document, built at the first request and then cached (`GET /openapi.json`)."""
    app: FastAPI = request.app
    if app.openapi_schema is None:
        app.openapi_schema = openapi_document(app.routes)
    return JSONResponse(app.openapi_schema)
