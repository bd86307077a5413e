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
    """Report that the process is alive."""
    return JSONResponse({"status": "ok"})


@router.get("/readyz")
@public
async def readyz(gateway: CurrentGateway) -> Response:
    """Report whether requests are accepted: the broker accepts publishes and the event loop is not overloaded."""
    gateway.protection.check()
    return JSONResponse({"status": "ready"})
