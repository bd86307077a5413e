"""The gateway as a process, without the chat: `python -m gateway`."""

from __future__ import annotations

import asyncio

from gateway.app import GatewayServices, create_app
from gateway.server import serve_app
from gateway.settings import GatewaySettings


async def serve(settings: GatewaySettings, stop: asyncio.Event, *, services: GatewayServices) -> None:
    """Serve the gateway alone on a started bus until `stop` is set.

    Raises:
        StartupError: see `serve_app`.
    """
    await serve_app(create_app(services, settings), settings, stop)
