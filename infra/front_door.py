"""Joins the gateway's API and the chat page on one port, for `headrace gateway` and `headrace serve` alike.

The gateway does not know the chat and the chat does not know the gateway: they meet here. What is neither a route
of the API nor below `/v1` is the page's.
"""

from __future__ import annotations

import asyncio

from fastapi import FastAPI
from starlette.types import Receive, Scope, Send

from auth_billing.key_news import announcer
from chat_ui.app import create_app as create_chat
from gateway.app import GatewayServices, create_app
from gateway.server import serve_app
from gateway.settings import GatewaySettings
from infra import account_access, environment
from infra.install import WEB
from infra.runtime.lifecycle import StartupError
from infra.settings import LauncherSettings
from router.bus import Bus
from router.errors import BrokerUnavailable
from router.transport.rabbitmq import RabbitMQTransport

API = "/v1"


def create_front_door(services: GatewayServices, settings: GatewaySettings) -> FastAPI:
    """The gateway's application, with the chat wherever the gateway has no route."""
    app = create_app(services, settings)
    chat, not_found = create_chat(WEB / "dist"), app.router.default

    async def otherwise(scope: Scope, receive: Receive, send: Send) -> None:
        path = scope.get("path", "")
        is_api = path == API or path.startswith(API + "/")  # an unknown one is a 404 in OpenAI's shape
        await (not_found if scope["type"] != "http" or is_api else chat)(scope, receive, send)

    app.router.default = otherwise
    return app


async def serve_gateway(settings: GatewaySettings, stop: asyncio.Event) -> None:
    """The gateway as a process of the platform.

    Raises:
        StartupError: no broker, no store, a port taken.
    """
    if not settings.amqp_url:
        raise StartupError("no broker given: set HEADRACE_AMQP_URL, for example amqp://user:password@127.0.0.1:5672/")
    home = environment.load(LauncherSettings).folder
    bus = Bus(RabbitMQTransport(settings.amqp_url, settings.gateway_id))
    async with account_access.opened(home, settings.mongodb_url, settings.api_key_pepper) as access:
        try:
            await bus.start()
            limits = access.rate_limiter(settings.gateway_id, settings.default_limits)
            services = GatewayServices(
                bus,
                access.facade(),
                access.billing(),
                access.idempotency_keys(),
                access.administration(announcer(bus)),
                limits,
            )
            await serve_app(create_front_door(services, settings), settings, stop)
        except BrokerUnavailable as error:
            raise StartupError(f"cannot reach the broker: {error}") from error
        finally:
            await bus.close()
