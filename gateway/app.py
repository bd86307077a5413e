"""Assembles a gateway: the FastAPI application, its components and its background tasks.

The process that runs the gateway creates and starts the bus, opens ports and handles signals.
"""

from __future__ import annotations

import asyncio
import time
import uuid
from collections.abc import AsyncIterator, Coroutine
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field
from typing import Any

import structlog
from fastapi import FastAPI
from fastapi.routing import APIRoute
from prometheus_client import CollectorRegistry

from auth_billing.administration import Administration
from auth_billing.authenticator import Authenticator
from auth_billing.idempotency import IdempotencyKeys
from auth_billing.money.billing import Billing
from auth_billing.rate_limits.limiter import RateLimiter
from documents.parsing.parser import DocumentParser
from gateway.admission.controller import AdmissionController
from gateway.admission.model_catalogue import ModelCatalogue, read_aliases
from gateway.admission.publish_queue import PublishQueue
from gateway.admission.queue_estimator import QueueEstimator
from gateway.admission.self_protection import SelfProtection
from gateway.answers.idempotency import IdempotentRequests
from gateway.answers.responses.background import BackgroundResponses
from gateway.answers.responses.background_jobs import BackgroundServices
from gateway.answers.stored_completions import CompletionStorage
from gateway.batches.batch_run import RunContext
from gateway.batches.runner import BatchRunner
from gateway.content_cipher import ContentCipher
from gateway.http import error_handlers
from gateway.http.authentication import unprotected_routes
from gateway.http.cors import ApiCors
from gateway.http.gateway import Gateway
from gateway.http.http_errors import response_error
from gateway.http.request_context import RequestContext
from gateway.http.routes import (
    anthropic,
    batches,
    blobs,
    chat_completions,
    completions,
    conversations,
    embeddings,
    files,
    health,
    images,
    mcp,
    models,
    moderations,
    ollama,
    openapi,
    operator,
    organization,
    responses,
    scores,
    stored_completions,
    tokenisation,
    uploads,
    vector_store_files,
    vector_stores,
)
from gateway.http.unauthenticated_connections import UnauthenticatedConnections
from gateway.jobs.gateway_billing import GatewayBilling
from gateway.jobs.generation_services import GenerationServices
from gateway.jobs.prompt_files import PARSER_LIMITS, RECOGNITION_SECONDS
from gateway.jobs.submission import JobSubmission
from gateway.metrics import GatewayMetrics
from gateway.moderation.moderation import Moderation
from gateway.moderation.rules import read_rules
from gateway.settings import GatewaySettings
from gateway.vector_stores.answer_erasures import AnswerErasures
from gateway.vector_stores.answer_searcher import AnswerSearcher
from gateway.vector_stores.file_import import ImportContext
from gateway.vector_stores.runner import COMPLETION_DELAY, ImportRunner
from router import control_targets
from router.bus import Bus, TypedSubscription
from router.errors import BrokerUnavailable
from router.messages import AnswerPart, Control, FollowAnswer, GatewayLoad, KeysChanged, WorkerStatus
from router.model_registry import ModelRegistry
from router.producer.errors import UpstreamUnreachable
from router.producer.reply_inbox import ReplyInbox
from router.producer.reply_reader import ReplySource
from router.timings import Timings
from runtime.lifecycle import StartupError
from stored_objects.blobs.addresses import AddressSigner
from stored_objects.conversations.conversations import Conversations
from stored_objects.files.files import ProjectFiles
from stored_objects.files.uploads import Uploads
from stored_objects.objects.objects import StoredObjects
from stored_objects.objects.sweeper import ObjectSweeper
from stored_objects.project_documents.project_documents import StoredDocuments
from stored_objects.project_documents.sweeper import DocumentSweeper
from stored_objects.responses.responses import StoredResponses
from stored_objects.vector_stores.imports import VectorStoreImports
from stored_objects.vector_stores.searches import VectorStoreSearches
from stored_objects.vector_stores.sweeper import VectorStoreSweeper
from stored_objects.vector_stores.vector_stores import VectorStores

LATE_HEARTBEAT = 4.0
"""Times the warm-up that a starting gateway waits for heartbeats after it, if none has arrived by then."""
_log = structlog.get_logger(__name__)


@dataclass(frozen=True)
class GatewayServices:
    """The services that a gateway depends on, such as the bus to the broker, authentication and billing."""

    bus: Bus
    authenticator: Authenticator
    billing: Billing
    idempotency: IdempotencyKeys
    administration: Administration
    limits: RateLimiter
    objects: StoredObjects
    addresses: AddressSigner
    contents: ContentCipher
    documents: StoredDocuments
    vector_stores: VectorStores
    searches: VectorStoreSearches
    metrics: CollectorRegistry = field(default_factory=CollectorRegistry)
    timings: Timings = field(default_factory=Timings)


def create_app(services: GatewayServices, settings: GatewaySettings) -> FastAPI:
    """Create the gateway's FastAPI application; start `services.bus` before its lifespan, which consumes replies.

    Raises:
        StartupError: A route neither requires a key nor is marked public, or the alias file is invalid.
    """
    app = FastAPI(
        title="Headrace", lifespan=_lifespan, redirect_slashes=False, docs_url=None, redoc_url=None, openapi_url=None
    )
    app.state.gateway = assemble(services, settings)
    of_models = (chat_completions, responses, completions, embeddings, images, scores, moderations, tokenisation)
    clients = (*of_models, models, mcp, anthropic, ollama)
    stored = (stored_completions, conversations, files, uploads, batches, blobs, vector_stores, vector_store_files)
    for routes in (*clients, *stored, health, openapi, organization, operator):
        app.include_router(routes.router)
    app.include_router(images.not_offered)
    app.add_middleware(RequestContext, metrics=app.state.gateway.metrics)
    if origins := settings.allowed_origins:
        paths = {route.path for routes in clients for route in routes.router.routes if isinstance(route, APIRoute)}
        app.add_middleware(ApiCors, origins=origins, paths=paths)
    error_handlers.install(app)
    if unauthenticated := unprotected_routes(app):
        raise StartupError(f"routes without authentication: {', '.join(unauthenticated)}")
    return app


def assemble(services: GatewayServices, settings: GatewaySettings) -> Gateway:
    """Create the gateway's components from its services and settings, and connect them; nothing runs yet.

    Raises:
        StartupError: The alias file is invalid.
    """
    metrics, timings = GatewayMetrics(services.metrics), services.timings
    services.bus.on_control_rejected(lambda reason: metrics.controls_refused.labels(reason).inc())
    registry = ModelRegistry(time.time, timings.worker_alive_timeout)
    catalogue = ModelCatalogue(registry, read_aliases(settings.model_aliases))
    queues = QueueEstimator(settings.gateway_id, report_timeout=timings.load_report_timeout)
    protection = SelfProtection(services.bus, max_loop_lag=settings.max_loop_lag)
    inbox = ReplyInbox(
        services.bus,
        settings.gateway_id,
        metrics,
        max_unread_bytes=settings.max_unread_bytes,
        availability=registry.availability,
        timings=timings,
    )
    publish_queue = PublishQueue(registry, queues.other_gateways)
    metrics.held.set_function(lambda: publish_queue.waiting)
    replies = ReplySource(services.bus, registry, timings, settings.no_worker_timeout)
    shared = GenerationServices(services.bus, inbox, registry, metrics, queues, publish_queue, timings, replies)
    project_files = ProjectFiles(services.objects)
    documents, limits = services.documents, services.limits
    billing = GatewayBilling(services.billing, services.bus, settings.gateway_id, metrics, timings)
    policies = services.administration.moderation_policies
    moderation = Moderation(shared, catalogue, read_rules(settings.moderation_rules), policies)
    jobs = JobSubmission(shared, billing, moderation)
    admission = AdmissionController(
        protection,
        catalogue,
        queues,
        max_choices=settings.max_choices,
        max_search_tokens=settings.max_search_tokens,
        max_wait=settings.max_waits,
    )
    searcher = AnswerSearcher(
        settings,
        services.administration,
        catalogue,
        admission,
        services.vector_stores,
        services.searches,
        services.authenticator,
    )
    background = BackgroundServices(
        documents.response_runs,
        documents.quota,
        jobs,
        catalogue,
        limits,
        services.addresses.address,
        services.objects,
        searcher,
        timings,
        settings.gateway_id,
        response_error,
        metrics,
    )
    return Gateway(
        settings=settings,
        bus=services.bus,
        authenticator=services.authenticator,
        administration=services.administration,
        models=registry,
        catalogue=catalogue,
        inbox=inbox,
        billing=billing,
        protection=protection,
        queues=queues,
        admission=admission,
        publish_queue=publish_queue,
        moderation=moderation,
        jobs=jobs,
        idempotent=IdempotentRequests(services.idempotency, services.bus, timings.idempotency_renewal_interval),
        limits=services.limits,
        objects=services.objects,
        files=project_files,
        prompt_parser=DocumentParser(
            PARSER_LIMITS, languages=settings.ocr_languages, recognition_seconds=RECOGNITION_SECONDS
        ),
        uploads=Uploads(project_files),
        addresses=services.addresses,
        contents=services.contents,
        documents=services.documents,
        vector_stores=services.vector_stores,
        searches=services.searches,
        searcher=searcher,
        imports=VectorStoreImports(services.vector_stores, completion_delay=COMPLETION_DELAY),
        completion_storage=CompletionStorage(services.documents.completions),
        responses=StoredResponses(services.documents.responses),
        conversations=Conversations(services.documents.conversations),
        background=BackgroundResponses(background),
        metrics=metrics,
        timings=timings,
        unauthenticated=UnauthenticatedConnections(settings.max_strangers),
    )


@asynccontextmanager
async def _lifespan(app: FastAPI) -> AsyncIterator[None]:
    gateway: Gateway = app.state.gateway
    windows, statuses = await gateway.inbox.listen(), await gateway.bus.statuses()
    own_controls = control_targets.gateway(gateway.idempotent.remote.process_id)
    controls = await gateway.bus.controls([control_targets.GATEWAYS, own_controls])
    tasks = [
        asyncio.create_task(_supervise(gateway, gateway.inbox.run(windows))),
        asyncio.create_task(_supervise(gateway, _observe(gateway.catalogue, statuses))),
        asyncio.create_task(_supervise(gateway, _apply_controls(gateway, controls))),
        asyncio.create_task(_supervise(gateway, _report_load(gateway))),
        asyncio.create_task(_supervise(gateway, gateway.protection.run())),
        asyncio.create_task(_supervise(gateway, gateway.authenticator.last_used_times.flush_periodically())),
        asyncio.create_task(_supervise(gateway, gateway.limits.run())),
        asyncio.create_task(_supervise(gateway, gateway.billing.run())),
        asyncio.create_task(_supervise(gateway, gateway.completion_storage.run())),
        asyncio.create_task(_supervise(gateway, ObjectSweeper(gateway.objects).run())),
        asyncio.create_task(_supervise(gateway, DocumentSweeper(gateway.documents.kinds).run())),
        asyncio.create_task(_supervise(gateway, VectorStoreSweeper(gateway.vector_stores).run())),
        asyncio.create_task(_supervise(gateway, gateway.searches.run())),
    ]
    runner, parser = uuid.uuid4().hex, DocumentParser(languages=gateway.settings.ocr_languages)
    runners: list[asyncio.Task[None]] = []
    try:
        await _collect_heartbeats(gateway.models, gateway.settings.registry_warmup)
        tasks.append(asyncio.create_task(_supervise(gateway, gateway.background.run())))
        batches = RunContext(gateway, app, runner)
        imports = ImportContext(gateway, app, parser, AnswerErasures(gateway.idempotent), runner)
        runners.append(asyncio.create_task(_supervise(gateway, BatchRunner(batches).run())))
        runners.append(asyncio.create_task(_supervise(gateway, ImportRunner(imports).run())))
        yield
    finally:
        for task in runners:
            task.cancel()  # before the requests that they make to this gateway
        await asyncio.gather(*runners, return_exceptions=True)
        parser.close()
        gateway.prompt_parser.close()
        await gateway.idempotent.close()
        await gateway.background.close()
        await gateway.completion_storage.flush()
        await gateway.billing.flush()
        await windows.close()
        await statuses.close()
        await controls.close()
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        await gateway.searches.close()
        await gateway.limits.close()
        await gateway.documents.quota.close()


async def _collect_heartbeats(models: ModelRegistry, seconds: float) -> None:
    """Wait for the heartbeats of all workers, whose models are unknown before: to requests (404) and to takeovers.

    If none arrives in this time, as on a busy machine, wait up to `LATE_HEARTBEAT` times as long for the first one, and
    then for the others.
    """
    await asyncio.sleep(seconds)
    if not models.is_empty:
        return
    with suppress(TimeoutError):
        async with asyncio.timeout(seconds * LATE_HEARTBEAT):
            while models.is_empty:  # noqa: ASYNC110 - a heartbeat sets no event
                await asyncio.sleep(seconds / 20)
            await asyncio.sleep(seconds)


async def _observe(catalogue: ModelCatalogue, statuses: TypedSubscription[WorkerStatus]) -> None:
    async for status in statuses:
        catalogue.observe(status)


async def _apply_controls(gateway: Gateway, controls: TypedSubscription[Control]) -> None:
    async for control in controls:
        match control:
            case KeysChanged():
                gateway.authenticator.invalidate(control.keys)
            case GatewayLoad():
                gateway.queues.observe(control)
            case FollowAnswer():
                gateway.idempotent.remote.send_next(control)
            case AnswerPart():
                gateway.idempotent.remote.receive(control)


async def _report_load(gateway: Gateway) -> None:
    """Report this gateway's load to the other gateways at a fixed interval."""
    while True:
        with suppress(BrokerUnavailable):
            load = gateway.queues.report(gateway.publish_queue.active_requesters())
            gateway.bus.send_control(control_targets.GATEWAYS, load)
        await asyncio.sleep(gateway.timings.load_report_interval)


async def _supervise(gateway: Gateway, task: Coroutine[Any, Any, None]) -> None:
    """Run a background task; if it dies, log why, fail all running requests, and have the server stop.

    Without it no request can be answered: they would hold credit and wait for their deadlines.
    """
    try:
        await task
    except Exception:
        _log.critical("a background task died", exc_info=True)
        gateway.inbox.fail_all(UpstreamUnreachable())
        gateway.failed.set()
        raise
