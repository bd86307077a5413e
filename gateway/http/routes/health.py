"""Routes of `GET /healthz` and `GET /readyz` for load balancers: public, and answered from memory."""

from __future__ import annotations

from fastapi import APIRouter, Response
from fastapi.responses import JSONResponse

from gateway.http.authentication import public
from gateway.http.dependencies import CurrentGateway

router = APIRouter()


@router.get("/healthz")
@public
async def healthz() -> Response:
    """Answer 200, because this gateway process is alive (`GET /healthz`)."""
    return JSONResponse({"status": "ok"})


@router.get("/readyz")
@public
async def readyz(gateway: CurrentGateway) -> Response:
    """Answer 200 if this gateway accepts requests, else 503: broker down, or event loop late (`GET /readyz`)."""
    gateway.protection.check()
    return JSONResponse({"status": "ready"})
