"""The chat's API over dictionaries and a scripted engine."""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from dataclasses import dataclass, field

from auth_billing.access.principal import Principal
from auth_billing.audit_log import AuditLog
from auth_billing.authenticator import AuthBilling
from auth_billing.money.credit import Credit
from auth_billing.people.browser_access import BrowserAccess
from auth_billing.people.sessions import BrowserSession
from auth_billing.prices.price_book import PriceBook
from auth_billing.rate_limits.limit_registry import LimitBook
from auth_billing.rate_limits.store_circuit import Circuit
from chat_ui.chat import Chat
from chat_ui.conversations import Conversations
from chat_ui.generations.generations import Generations
from chat_ui.generations.titles import Titles
from chat_ui.history.listing import Listing
from chat_ui.history.records import Owner
from chat_ui.history.room import Room
from chat_ui.importing.frames import Frame, Order, Read
from chat_ui.importing.importer import Importer
from chat_ui.importing.reading import read
from chat_ui.importing.taking_in import Shelves
from chat_ui.office import Office
from router.messages import WorkerStatus
from router.registry import ModelInfo, ModelRegistry
from tests.fakes.accounts import Absence
from tests.fakes.administration import DictOrganisation
from tests.fakes.audit_log import ListAuditLogStore
from tests.fakes.billing_stores import DictJobStore
from tests.fakes.credits import DictCreditStore
from tests.fakes.history import (
    DictAnswerStore,
    DictConversationStore,
    DictHistory,
    DictImportStore,
    DictMessageStore,
    DictPresetStore,
    DictShareStore,
)
from tests.fakes.prices import ListPriceStore
from tests.fakes.rate_buckets import DictLimitStore
from tests.fakes.scripted_engine import MODEL, ScriptedEngine
from tests.fakes.scripted_worker import status
from tests.fakes.sessions import PEPPER


class FakeFleet:
    """One worker."""

    def __init__(self) -> None:
        self.registry = ModelRegistry(lambda: 0.0)
        self.registry.observe(status(MODEL))

    def workers(self) -> Sequence[WorkerStatus]:
        return self.registry.workers()

    def models(self) -> Sequence[ModelInfo]:
        return self.registry.models()

    def queued(self, model: str) -> int:
        return 3


async def read_here(raw: bytes, order: Order) -> AsyncIterator[Frame]:
    """A file's frames, without a process."""
    for frame in read(raw, order):
        yield frame


@dataclass
class ChatHouse:
    """What the gateways of one chat share."""

    organisation: DictOrganisation = field(default_factory=DictOrganisation)
    history: DictHistory = field(default_factory=DictHistory)
    engine: ScriptedEngine = field(default_factory=ScriptedEngine)
    prices: ListPriceStore = field(default_factory=ListPriceStore)

    def __post_init__(self) -> None:
        self.accounts = AuthBilling(self.organisation.api_keys, PEPPER)

    def generations(self, engine: ScriptedEngine | None = None) -> Generations:
        """One gateway's."""
        engine, messages = engine or self.engine, DictMessageStore(self.history)
        titles = Titles(engine, DictConversationStore(self.history), messages)
        return Generations(engine, messages, DictAnswerStore(self.history), titles, self.principal)

    def conversations(self, generations: Generations) -> Conversations:
        """One gateway's."""
        return Conversations(
            DictConversationStore(self.history),
            DictMessageStore(self.history),
            DictShareStore(self.history),
            generations,
            room=Room(DictConversationStore(self.history)),
        )

    def importer(self, read: Read | None = None) -> Importer:
        """One gateway's; by default it reads files itself."""
        conversations = DictConversationStore(self.history)
        shelves = Shelves(conversations, DictMessageStore(self.history), DictImportStore(self.history))
        return Importer(shelves, Room(conversations), read or read_here)

    async def principal(self, owner: Owner, project: str) -> Principal:
        return Principal(key_id="", tenant=owner.organisation, cache_salt="salt", project=project, user=owner.user)

    def chat(self, access: BrowserAccess, audit: ListAuditLogStore) -> Chat:
        """One gateway's chat."""
        generations = self.generations()
        return Chat(
            access=access,
            audit=AuditLog(audit),
            conversations=self.conversations(generations),
            listing=Listing(DictConversationStore(self.history), DictMessageStore(self.history)),
            importer=self.importer(),
            presets=DictPresetStore(self.history),
            generations=generations,
            engine=self.engine,
            office=self.office(),
            principal=self._principal_of,
        )

    def office(self) -> Office:
        organisation = self.organisation
        return Office(
            administration=organisation.administration,
            credit=Credit(DictCreditStore(organisation.balances), DictJobStore(Absence())),
            balances=organisation.balances,
            prices=PriceBook(self.prices),
            limits=LimitBook(DictLimitStore(), {}, Circuit(lambda: 0.0)),
            fleet=FakeFleet(),
        )

    def _principal_of(self, session: BrowserSession) -> Principal:
        return self.accounts.principal_of(session)
