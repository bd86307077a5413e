"""Holds the components of a running gateway, which routes get from the request."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, field

from starlette.requests import Request

from auth_billing.administration import Administration
from auth_billing.authenticator import Authenticator
from auth_billing.rate_limits.limiter import RateLimiter
from documents.parsing.parser import DocumentParser
from gateway.admission.controller import AdmissionController
from gateway.admission.model_catalogue import ModelCatalogue
from gateway.admission.publish_queue import PublishQueue
from gateway.admission.queue_estimator import QueueEstimator
from gateway.admission.self_protection import SelfProtection
from gateway.answers.idempotency import IdempotentRequests
from gateway.answers.responses.background import BackgroundResponses
from gateway.answers.stored_completions import CompletionStorage
from gateway.content_cipher import ContentCipher
from gateway.http.unauthenticated_connections import UnauthenticatedConnections
from gateway.jobs.gateway_billing import GatewayBilling
from gateway.jobs.submission import JobSubmission
from gateway.mcp.running_calls import RunningToolCalls
from gateway.metrics import GatewayMetrics
from gateway.moderation.moderation import Moderation
from gateway.settings import GatewaySettings
from gateway.vector_stores.answer_searcher import AnswerSearcher
from router.bus import Bus
from router.model_registry import ModelRegistry
from router.producer.reply_inbox import ReplyInbox
from router.timings import Timings
from stored_objects.blobs.addresses import AddressSigner
from stored_objects.conversations.conversations import Conversations
from stored_objects.files.files import ProjectFiles
from stored_objects.files.uploads import Uploads
from stored_objects.objects.objects import StoredObjects
from stored_objects.project_documents.project_batches import ProjectBatches
from stored_objects.project_documents.project_documents import StoredDocuments
from stored_objects.responses.responses import StoredResponses
from stored_objects.vector_stores.imports import VectorStoreImports
from stored_objects.vector_stores.ownerless import OwnerlessVectorStores
from stored_objects.vector_stores.searches import VectorStoreSearches
from stored_objects.vector_stores.vector_stores import VectorStores


@dataclass(frozen=True)
class Gateway:
    """The components of one gateway process that routes use, such as admission, jobs, limits and metrics."""

    settings: GatewaySettings
    bus: Bus
    authenticator: Authenticator
    administration: Administration
    models: ModelRegistry
    catalogue: ModelCatalogue
    inbox: ReplyInbox
    protection: SelfProtection
    queues: QueueEstimator
    admission: AdmissionController
    billing: GatewayBilling
    publish_queue: PublishQueue
    moderation: Moderation
    jobs: JobSubmission
    idempotent: IdempotentRequests
    limits: RateLimiter
    objects: StoredObjects
    files: ProjectFiles
    prompt_parser: DocumentParser
    """Parses the files of prompts."""
    uploads: Uploads
    addresses: AddressSigner
    contents: ContentCipher
    documents: StoredDocuments
    vector_stores: VectorStores
    searches: VectorStoreSearches
    searcher: AnswerSearcher
    imports: VectorStoreImports
    completion_storage: CompletionStorage
    responses: StoredResponses
    conversations: Conversations
    background: BackgroundResponses
    metrics: GatewayMetrics
    timings: Timings
    unauthenticated: UnauthenticatedConnections
    tool_calls: RunningToolCalls = field(default_factory=RunningToolCalls)
    batch_created: asyncio.Event = field(default_factory=asyncio.Event)
    """Set when a client has created a batch here, which can be run at once."""
    files_attached: asyncio.Event = field(default_factory=asyncio.Event)
    """Set when a client has attached files to a vector store here, which can be imported at once."""
    stopping: asyncio.Event = field(default_factory=asyncio.Event)
    """Set when the server has stopped accepting connections and waits for running requests."""
    failed: asyncio.Event = field(default_factory=asyncio.Event)
    """Set when a background task died: the server stops, and its process has to be started again."""

    @property
    def batches(self) -> ProjectBatches:
        """The batches of all projects, for routes of API and chat."""
        return ProjectBatches(self.objects, self.documents.batches, self.batch_created.set)

    @property
    def ownerless_vector_stores(self) -> OwnerlessVectorStores:
        """The vector stores of people who have left their organisation, for routes of API and chat."""
        return OwnerlessVectorStores(self.vector_stores, self.administration.members.memberships)


def gateway_of(request: Request) -> Gateway:
    """Return the `Gateway` (the components of this process) that serves an HTTP request."""
    gateway: Gateway = request.app.state.gateway
    return gateway
