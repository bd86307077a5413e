"""The chat's API over dictionaries and a scripted engine."""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from typing import BinaryIO

from auth_billing.access.principal import Principal
from auth_billing.audit_log import AuditLog
from auth_billing.authenticator import Authenticator
from auth_billing.money.credit import Credit
from auth_billing.people.browser_access import BrowserAccess
from auth_billing.people.reset_mails import Mailer, ResetMails
from auth_billing.people.sessions import BrowserSession
from auth_billing.prices.price_book import PriceBook
from auth_billing.rate_limits.limit_registry import LimitRegistry
from auth_billing.rate_limits.store_circuit import StoreCircuit
from chat_ui.admin_services import AdminServices
from chat_ui.conversations import Conversations
from chat_ui.generations.generations import Generations
from chat_ui.generations.titles import TitleGenerator
from chat_ui.history.conversation_images import ConversationImages
from chat_ui.history.conversation_lists import ConversationLists
from chat_ui.history.quota import ConversationQuota
from chat_ui.history.records import Owner
from chat_ui.history.storage import StorageQuota
from chat_ui.importing.frames import Frame, ImportRequest, ParseFile
from chat_ui.importing.importer import Importer
from chat_ui.importing.parser import parse
from chat_ui.importing.writer import ImportStores
from chat_ui.services import ChatServices
from router.messages import WorkerStatus
from router.model_registry import ModelInfo, ModelRegistry
from router.timings import DEFAULT_TIMINGS, Timings
from stored_objects.blobs.addresses import AddressSigner
from stored_objects.files.files import ProjectFiles
from stored_objects.project_documents.project_batches import ProjectBatches
from stored_objects.vector_stores.ownerless import OwnerlessVectorStores
from tests.fakes.administration import DictOrganisation
from tests.fakes.audit_log import ListAuditLogStore
from tests.fakes.batches import DictBatchStore
from tests.fakes.document_search import ScriptedDocumentSearch
from tests.fakes.history import (
    DictAnswerStore,
    DictConversationStore,
    DictHistory,
    DictImportStore,
    DictMessageStore,
    DictPresetStore,
    DictShareStore,
    DictStoredBytes,
)
from tests.fakes.scripted_engine import MODEL, ScriptedEngine
from tests.fakes.scripted_worker import status
from tests.fakes.sessions import ORGANISATION, PEPPER
from tests.fakes.stored_objects import stored_objects
from tests.fakes.vector_stores import vector_stores

PUBLIC_URL = "https://chat.example"


class FakeFleet:
    """One worker, and rules of moderation with two categories."""

    def __init__(self) -> None:
        self.registry = ModelRegistry(lambda: 0.0)
        self.registry.observe(status(MODEL))

    def workers(self) -> Sequence[WorkerStatus]:
        return self.registry.workers()

    def models(self) -> Sequence[ModelInfo]:
        return self.registry.models()

    def queued(self, model: str) -> int:
        return 3

    def moderation_models(self) -> Sequence[str]:
        return ["moderation-rules"]

    def moderation_categories(self) -> Sequence[str]:
        return ["hate", "violence"]


async def parse_in_process(file: BinaryIO, request: ImportRequest) -> AsyncIterator[Frame]:
    """Yield the frames of a file, parsed in this process."""
    for frame in parse(file.read(), request):
        yield frame


class ChatHouse:
    """What the gateways of one chat share."""

    def __init__(self, timings: Timings = DEFAULT_TIMINGS, storage_bytes: int = 2**30) -> None:
        self.storage_bytes = storage_bytes
        self.organisation, self.history = DictOrganisation(operators=ORGANISATION), DictHistory()
        self.prices = self.organisation.prices
        self.engine, self.timings, self.objects = ScriptedEngine(), timings, stored_objects()
        self.limits, self.batches = self.organisation.limits, DictBatchStore()
        self.documents = ScriptedDocumentSearch(vector_stores(self.objects))
        self.accounts = Authenticator(
            self.organisation.api_keys, PEPPER, self.organisation.administration.model_policies
        )

    def generations(self, engine: ScriptedEngine | None = None) -> Generations:
        """One gateway's."""
        engine, messages = engine or self.engine, DictMessageStore(self.history)
        titles = TitleGenerator(engine, DictConversationStore(self.history), messages)
        return Generations(
            engine,
            messages,
            DictAnswerStore(self.history),
            titles,
            self.principal,
            storage=self.storage(),
            images=self.images(),
            timings=self.timings,
        )

    def images(self) -> ConversationImages:
        """One gateway's."""
        return ConversationImages(self.objects, DictConversationStore(self.history))

    def storage(self) -> StorageQuota:
        """One gateway's."""
        return StorageQuota(DictStoredBytes(self.history), DictConversationStore(self.history), self.storage_bytes)

    def conversations(self, generations: Generations) -> Conversations:
        """One gateway's."""
        return Conversations(
            DictConversationStore(self.history),
            DictMessageStore(self.history),
            DictShareStore(self.history),
            generations,
            quota=ConversationQuota(DictConversationStore(self.history)),
            storage=self.storage(),
            images=self.images(),
            joined=lambda owner: self.organisation.administration.members.joined(owner.organisation, owner.user),
        )

    def importer(self, parse_file: ParseFile | None = None) -> Importer:
        """One gateway's; by default it reads files itself."""
        conversations, messages = DictConversationStore(self.history), DictMessageStore(self.history)
        imports = DictImportStore(self.history)
        stores = ImportStores(conversations, messages, imports, self.storage(), timings=self.timings)
        return Importer(stores, ConversationQuota(conversations), parse_file or parse_in_process)

    async def principal(self, owner: Owner, project: str) -> Principal:
        return Principal(key_id="", tenant=owner.organisation, cache_salt="salt", project=project, user=owner.user)

    def chat(
        self,
        access: BrowserAccess,
        audit: ListAuditLogStore,
        parse_file: ParseFile | None = None,
        *,
        mailer: Mailer | None = None,
    ) -> ChatServices:
        """One gateway's chat."""
        generations = self.generations()
        return ChatServices(
            access=access,
            reset_mails=ResetMails(access.reset_links, access.throttle, AuditLog(audit), mailer, PUBLIC_URL),
            audit=AuditLog(audit),
            conversations=self.conversations(generations),
            images=self.images(),
            lists=ConversationLists(DictConversationStore(self.history), DictMessageStore(self.history)),
            importer=self.importer(parse_file),
            presets=DictPresetStore(self.history),
            storage=self.storage(),
            generations=generations,
            model_client=self.engine,
            admin=self.admin(),
            principal=self._principal_of,
            files=ProjectFiles(self.objects),
            batches=ProjectBatches(self.objects, self.batches, lambda: None),
            vector_stores=self.documents.stores,
            ownerless_vector_stores=OwnerlessVectorStores(self.documents.stores, access.members.memberships),
            document_search=self.documents,
            blob_address=AddressSigner(b"key").address,
        )

    def admin(self) -> AdminServices:
        organisation = self.organisation
        return AdminServices(
            administration=organisation.administration,
            credit=Credit(organisation.credits, organisation.jobs),
            balances=organisation.balances,
            prices=PriceBook(self.prices),
            limits=LimitRegistry(self.limits, {}, StoreCircuit(lambda: 0.0)),
            fleet=FakeFleet(),
        )

    async def _principal_of(self, session: BrowserSession) -> Principal:
        return await self.accounts.principal_of(session)
