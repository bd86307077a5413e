"""`GET /openapi.json`: what this API takes and gives, for whoever generates clients or tests from it. No secrets."""

from __future__ import annotations

from fastapi import APIRouter, FastAPI, Request, Response
from fastapi.responses import JSONResponse

from gateway.http.api_description import describe
from gateway.http.authenticate import public

router = APIRouter()


@router.get("/openapi.json", include_in_schema=False)
@public
async def openapi(request: Request) -> Response:
    """The document; made once."""
    app: FastAPI = request.app
    if app.openapi_schema is None:
        app.openapi_schema = describe(app.routes)
    return JSONResponse(app.openapi_schema)
