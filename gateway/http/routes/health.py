"""`GET /healthz`, `GET /readyz`: for load balancers, without a key, from memory. Metrics are on the ops port."""

from __future__ import annotations

from fastapi import APIRouter, Response
from fastapi.responses import JSONResponse

from gateway.http.authenticate import public
from gateway.http.dependencies import TheGateway

router = APIRouter()


@router.get("/healthz")
@public
async def healthz() -> Response:
    """The process lives."""
    return JSONResponse({"status": "ok"})


@router.get("/readyz")
@public
async def readyz(gateway: TheGateway) -> Response:
    """It can take requests: the broker takes publishes, and the gateway keeps up."""
    gateway.protection.check()
    return JSONResponse({"status": "ready"})
