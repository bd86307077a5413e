"""Joins the gateway's API and the chat page on one port, for `headrace gateway` and `headrace serve` alike.

The gateway does not know the chat and the chat does not know the gateway: they meet here. What is neither a route of the
API nor below `/v1` is the page's.
"""

from __future__ import annotations

from fastapi import FastAPI
from starlette.types import Receive, Scope, Send

from chat_ui.app import create_app as create_chat
from gateway.app import GatewayServices, create_app
from gateway.settings import GatewaySettings
from infra.install import WEB

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
