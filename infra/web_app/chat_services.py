"""Factory of the web chat's services: conversations in the store, answers by the gateway, account administration."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager

from fastapi import FastAPI

from auth_billing.access.principal import Principal
from auth_billing.audit_log import AuditLog
from auth_billing.authenticator import Authenticator
from auth_billing.errors import StoreUnavailable
from auth_billing.people.members import Members
from auth_billing.people.sessions import BrowserSession
from auth_billing.prices.price_book import PriceBook
from auth_billing.store.audit_log import MongoAuditLogStore
from auth_billing.store.balances import MongoBalanceStore
from auth_billing.store.prices import MongoPriceStore
from chat_ui.admin_services import AdminServices
from chat_ui.conversations import Conversations
from chat_ui.generations.generations import Generations, Principals
from chat_ui.generations.titles import TitleGenerator
from chat_ui.history.conversation_images import ConversationImages
from chat_ui.history.conversation_lists import ConversationLists
from chat_ui.history.quota import ConversationQuota
from chat_ui.history.records import Owner
from chat_ui.history.storage import MIB, StorageQuota
from chat_ui.importing.importer import Importer
from chat_ui.importing.parser_process import parse_in_sandbox
from chat_ui.importing.writer import ImportStores
from chat_ui.services import ChatServices
from chat_ui.settings import ChatSettings, OidcSettings
from chat_ui.store.conversations import MongoConversationStore
from chat_ui.store.imports import MongoImportStore
from chat_ui.store.indexes import create_indexes
from chat_ui.store.messages import MongoAnswerStore, MongoMessageStore
from chat_ui.store.presets import MongoPresetStore
from chat_ui.store.shares import MongoShareStore
from chat_ui.store.stored_bytes import MongoStoredBytes
from gateway.http.gateway import Gateway
from infra.accounts import sign_in_services
from infra.accounts.account_services import AccountServices
from infra.web_app import oidc_services
from infra.web_app.gateway_document_search import GatewayDocumentSearch
from infra.web_app.gateway_model_client import GatewayFleet, GatewayModelClient
from router.messages import KeySet
from runtime.lifecycle import StartupError


def chat(
    access: AccountServices,
    app: FastAPI,
    settings: ChatSettings,
    oidc: OidcSettings,
    announce: Callable[[KeySet], None],
) -> ChatServices:
    """Create the services behind the chat's HTTP API; they call `announce` to notify gateways of changed keys.

    `app`: the gateway's application, in whose process models are called.

    Raises:
        StartupError: the session signing keys are unusable, or a setting is.
    """
    gateway: Gateway = app.state.gateway
    connection = access.connection
    passwords = oidc.oidc_password_sign_in or not oidc.oidc_issuer
    browsers = sign_in_services.browser_access(access, settings, announce, password_sign_in=passwords)
    prices = PriceBook(MongoPriceStore(connection))
    engine = GatewayModelClient(gateway, prices)
    conversations, messages = MongoConversationStore(connection), MongoMessageStore(connection)
    storage = StorageQuota(MongoStoredBytes(connection), conversations, settings.chat_storage_mib * MIB)
    images = ConversationImages(gateway.objects, conversations)
    generations = Generations(
        engine,
        messages,
        MongoAnswerStore(connection),
        TitleGenerator(engine, conversations, messages),
        _principals(browsers.members, gateway.authenticator),
        storage=storage,
        images=images,
        stopping=gateway.stopping,
        timings=gateway.timings,
    )
    quota = ConversationQuota(conversations)
    return ChatServices(
        access=browsers,
        reset_mails=sign_in_services.reset_mails(access, browsers, settings),
        audit=AuditLog(MongoAuditLogStore(connection)),
        conversations=Conversations(
            conversations,
            messages,
            MongoShareStore(connection),
            generations,
            quota=quota,
            storage=storage,
            images=images,
            joined=lambda owner: browsers.members.joined(owner.organisation, owner.user),
        ),
        lists=ConversationLists(conversations, messages),
        images=images,
        importer=Importer(
            ImportStores(conversations, messages, MongoImportStore(connection), storage, timings=gateway.timings),
            quota,
            parse_in_sandbox,
        ),
        presets=MongoPresetStore(connection),
        storage=storage,
        generations=generations,
        model_client=engine,
        admin=AdminServices(
            administration=gateway.administration,
            credit=access.credit(),
            balances=MongoBalanceStore(connection),
            prices=prices,
            limits=gateway.limits.book,
            fleet=GatewayFleet(gateway),
            console_url=settings.console_url,
        ),
        principal=gateway.authenticator.principal_of,
        files=gateway.files,
        batches=gateway.batches,
        vector_stores=gateway.vector_stores,
        ownerless_vector_stores=gateway.ownerless_vector_stores,
        document_search=GatewayDocumentSearch(gateway, app),
        blob_address=gateway.addresses.address,
        oidc=oidc_services.oidc_sign_in(access, browsers, oidc, settings.public_url),
    )


@asynccontextmanager
async def running(access: AccountServices, chat: ChatServices, oidc: OidcSettings) -> AsyncIterator[None]:
    """Run the chat's background tasks while the context lasts: they continue answers of dead gateways, and send mails.

    They also clean up after imports of dead gateways, and end unconfirmed memberships. On exit, running answers are
    left to other gateways, and imports are cancelled.

    Raises:
        StartupError: the store is unavailable.
    """
    try:
        await create_indexes(access.connection)
    except StoreUnavailable as error:
        raise StartupError(f"the store does not answer: {error}") from error
    # Without a provider too: memberships that its groups gave must end after it was taken out of the settings.
    unconfirmed = oidc_services.end_unconfirmed(chat.access.members, chat.audit, oidc)
    loops = (chat.generations.run(), chat.importer.run(), chat.reset_mails.run(), unconfirmed)
    looking = [asyncio.create_task(each) for each in loops]
    try:
        yield
    finally:
        await asyncio.gather(chat.generations.close(), chat.importer.close(), chat.reset_mails.close())
        for task in looking:
            task.cancel()
        await asyncio.gather(*looking, return_exceptions=True)
        if chat.oidc is not None:
            await chat.oidc.provider.close()


def _principals(members: Members, authenticator: Authenticator) -> Principals:
    async def principal(owner: Owner, project: str) -> Principal:
        """Return the owner's current principal: an answer may outlive sessions, but not a membership."""
        member = await members.find(owner.organisation, owner.user)
        return await authenticator.principal_of(
            BrowserSession("", member.user, owner.organisation, project, member.role)
        )

    return principal
