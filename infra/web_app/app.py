"""ASGI application of `headrace gateway` and `headrace serve`: the gateway's API, the chat's API and the chat page.

Gateway and chat must not import each other and are combined here. Paths that are neither a route of the gateway nor
below `/v1` belong to the chat: its API below `/api`, its page everywhere else.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

from fastapi import FastAPI
from prometheus_client import CollectorRegistry
from starlette.requests import Request
from starlette.types import Lifespan, Receive, Scope, Send

from auth_billing.keys.key_invalidation import invalidation_publisher
from auth_billing.keys.pepper import control_secret
from chat_ui.http import cookies
from chat_ui.http.api import PREFIX as CHAT_API
from chat_ui.http.api import create_api
from chat_ui.http.page import create_app as create_page
from chat_ui.services import ChatServices
from chat_ui.settings import ChatSettings, OidcSettings
from documents.search.local_index import LocalIndex
from gateway.app import GatewayServices, create_app
from gateway.content_cipher import ContentCipher, content_key
from gateway.http.gateway import Gateway
from gateway.http.server import serve_app
from gateway.settings import GatewaySettings
from infra.accounts import account_services
from infra.accounts.account_services import AccountServices
from infra.home import environment
from infra.home.settings import LauncherSettings
from infra.install.node_packages import WEB
from infra.web_app import chat_services
from router.bus import Bus
from router.errors import BrokerUnavailable
from router.rabbitmq_bus import check_amqp_url, rabbitmq_bus
from runtime.lifecycle import StartupError, freeze_objects
from stored_objects.blobs.addresses import AddressSigner, address_key
from stored_objects.objects.objects import StoredObjects
from stored_objects.services import prepare, stored_documents, stored_objects, vector_stores
from stored_objects.settings import BlobSettings, DocumentSettings
from stored_objects.vector_stores.searches import VectorStoreSearches

API = "/v1"
INDEXES = "search"
"""Folder in the installation's home where the search indexes of vector stores are."""


def create_web_app(access: AccountServices, bus: Bus, settings: GatewaySettings) -> FastAPI:
    """Create the FastAPI application that serves the API, the chat's API and the chat page; `bus` must be started."""
    news, registry = invalidation_publisher(bus), CollectorRegistry()
    objects = stored_objects(environment.load(BlobSettings), access.connection, access.home.path, registry)
    documents = stored_documents(environment.load(DocumentSettings), access.connection, objects.quotas)
    stores = vector_stores(access.connection, documents.quota, objects)
    services = GatewayServices(
        bus,
        access.authenticator(),
        access.billing(),
        access.idempotency_keys(),
        access.administration(news),
        access.rate_limiter(settings.gateway_id, settings.default_limits),
        objects,
        AddressSigner(address_key(access.pepper)),
        ContentCipher(content_key(access.pepper)),
        documents,
        stores,
        VectorStoreSearches(stores, access.home.path / INDEXES, LocalIndex),
        metrics=registry,
        timings=access.timings,
    )
    app = create_app(services, settings)
    settings_of_chat, oidc = environment.load(ChatSettings), environment.load(OidcSettings)
    chat = chat_services.chat(access, app, settings_of_chat, oidc, news)
    _add_chat(app, chat)
    with_chat = _with_chat(app.router.lifespan_context, access, chat, oidc)
    app.router.lifespan_context = _with_objects(with_chat, access, objects)
    return app


def _add_chat(app: FastAPI, chat: ChatServices) -> None:
    """Mount the chat at all paths where the gateway has no route."""
    page, chat_api, not_found = create_page(WEB / "dist"), create_api(chat), app.router.default
    gateway: Gateway = app.state.gateway

    async def otherwise(scope: Scope, receive: Receive, send: Send) -> None:
        path = scope.get("path", "")
        if scope["type"] != "http" or _is_below(path, API):
            await not_found(scope, receive, send)  # a 404 in OpenAI's format
            return
        if scope["client"] is not None and chat.access.sessions.issued(cookies.read(Request(scope), cookies.ACCESS)):
            gateway.unauthenticated.discard(scope["client"])
        if _is_below(path, CHAT_API):
            await chat_api(scope, receive, send)
        else:
            await page(scope, receive, send)

    app.router.default = otherwise


def _with_chat(
    gateway: Lifespan[Any], access: AccountServices, chat: ChatServices, oidc: OidcSettings
) -> Lifespan[Any]:
    """Return the gateway's lifespan with the chat's nested inside: chat answers need a running gateway."""

    @asynccontextmanager
    async def lifespan(app: Any) -> AsyncIterator[Any]:
        async with gateway(app) as state, chat_services.running(access, chat, oidc):
            yield state

    return lifespan


def _with_objects(app: Lifespan[Any], access: AccountServices, objects: StoredObjects) -> Lifespan[Any]:
    """Return a lifespan in which blobs and their documents are checked before the application starts."""

    @asynccontextmanager
    async def lifespan(inner: Any) -> AsyncIterator[Any]:
        await prepare(objects, access.connection)
        try:
            async with app(inner) as state:
                yield state
        finally:
            objects.close()

    return lifespan


def _is_below(path: str, prefix: str) -> bool:
    return path == prefix or path.startswith(prefix + "/")


async def serve_gateway(settings: GatewaySettings, stop: asyncio.Event) -> None:
    """Run a gateway process with API and web chat (`headrace gateway`) until `stop` is set.

    Raises:
        StartupError: no broker, no store, or the port is in use.
    """
    check_amqp_url(settings.amqp_url)
    home = environment.load(LauncherSettings).folder
    async with account_services.opened(home, settings.mongodb_url, settings.api_key_pepper) as access:
        secret = settings.control_secret or control_secret(access.pepper)
        bus = rabbitmq_bus(settings.amqp_url, settings.gateway_id, secret)
        try:
            await bus.start()
            app = create_web_app(access, bus, settings)
            freeze_objects()
            await serve_app(app, settings, stop)
        except BrokerUnavailable as error:
            raise StartupError(f"cannot reach the broker: {error}") from error
        finally:
            await bus.close()
