"""FastAPI dependencies of the gateway's routes, which give them the gateway, the authenticated caller, the parsed body.

The body is read here rather than by FastAPI, whose reader has no limits and whose parser is not strict, and only after
the caller is authenticated. Model endpoints use a single dependency, because each dependency costs time per request.
"""

from __future__ import annotations

from collections.abc import Callable, Coroutine
from typing import Annotated, Any, Generic, NamedTuple, TypeVar

from fastapi import Depends, Request, Security

from auth_billing.access.principal import Principal
from auth_billing.access.scopes import Scope
from gateway.http import rate_limits
from gateway.http.authentication import ApiKeySecurity
from gateway.http.dialect import dialect_of
from gateway.http.gateway import Gateway, gateway_of
from gateway.openai.base import RequestBody
from gateway.openai.chat_completions import ChatCompletionRequest
from gateway.openai.completions import CompletionRequest
from gateway.openai.embeddings import EmbeddingRequest
from gateway.openai.images import ImageRequest
from gateway.openai.moderations import ModerationRequest
from gateway.openai.responses.compaction import CompactionRequest
from gateway.openai.responses.conversations import ConversationCreate, ConversationItemsCreate, ConversationUpdate
from gateway.openai.responses.request import InputTokensRequest, ResponseRequest
from gateway.openai.scores import RerankRequest, ScoreRequest
from gateway.openai.stored_completions import StoredChatCompletionUpdate
from gateway.openai.tokenisation import DetokenizeRequest, TokenizeRequest
from runtime import strict_json

Body = TypeVar("Body", bound=RequestBody)


class AuthorisedRequest(NamedTuple, Generic[Body]):
    """An authorised request: the caller, the validated body, and the gateway that serves it."""

    caller: Principal
    body: Body
    gateway: Gateway


class BodySecurity(ApiKeySecurity, Generic[Body]):
    """Dependency that authorises the caller for `scope`, then reads the body as `kind`."""

    def __init__(self, scope: Scope, kind: type[Body]) -> None:
        super().__init__(scope)
        self._kind = kind

    async def __call__(self, request: Request) -> AuthorisedRequest[Body]:  # type: ignore[override]
        """Authorise the caller, count the request against rate limits, read its body. Raises as `caller` does, and:

        Raises:
            BrokerDown, Overloaded, RateLimitExceeded, StoreUnavailable: The request may not run now.
            MalformedRequest, InvalidRequest: The body is invalid.
        """
        caller = await self.caller(request)
        return AuthorisedRequest(caller, await _read(request, caller, self._kind), gateway_of(request))


def body_of(kind: type[Body], guard: ApiKeySecurity) -> Callable[..., Coroutine[Any, Any, Body]]:
    """Create a FastAPI dependency that has `guard` authorise the caller, then parses the body as model `kind`."""

    async def read(request: Request, caller: Principal = Security(guard)) -> Body:  # noqa: B008 - FastAPI's convention
        return await _read(request, caller, kind)

    return read


async def _read(request: Request, caller: Principal, kind: type[Body]) -> Body:
    gateway = gateway_of(request)
    gateway.protection.check()
    await rate_limits.enter(request, caller)
    typed = dialect_of(request.scope).typed_bodies
    strict_json.check_headers(request.headers, gateway.settings.max_body_bytes, typed=typed)
    raw = await strict_json.read_body(request.stream(), gateway.settings.max_body_bytes, gateway.settings.body_timeout)
    return await strict_json.parse(raw, kind.parse)


async def _current_gateway(request: Request) -> Gateway:
    return gateway_of(request)  # async, because FastAPI runs plain functions in a thread, which is far slower


CurrentGateway = Annotated[Gateway, Depends(_current_gateway)]

_chat_security = BodySecurity(Scope.CHAT_COMPLETIONS, ChatCompletionRequest)
_response_security = BodySecurity(Scope.CHAT_COMPLETIONS, ResponseRequest)
_input_tokens_security = BodySecurity(Scope.CHAT_COMPLETIONS, InputTokensRequest)
_compaction_security = BodySecurity(Scope.CHAT_COMPLETIONS, CompactionRequest)
_completion_security = BodySecurity(Scope.COMPLETIONS, CompletionRequest)
_embedding_security = BodySecurity(Scope.EMBEDDINGS, EmbeddingRequest)
_image_security = BodySecurity(Scope.IMAGES, ImageRequest)
_score_security = BodySecurity(Scope.SCORES, ScoreRequest)
_rerank_security = BodySecurity(Scope.SCORES, RerankRequest)
_moderation_security = BodySecurity(Scope.SCORES, ModerationRequest)
_tokenisation_security = BodySecurity(Scope.MODELS_READ, TokenizeRequest)
_detokenisation_security = BodySecurity(Scope.MODELS_READ, DetokenizeRequest)
_completion_update_security = BodySecurity(Scope.CHAT_COMPLETIONS, StoredChatCompletionUpdate)
_conversation_security = BodySecurity(Scope.CHAT_COMPLETIONS, ConversationCreate)
_conversation_update_security = BodySecurity(Scope.CHAT_COMPLETIONS, ConversationUpdate)
_conversation_items_security = BodySecurity(Scope.CHAT_COMPLETIONS, ConversationItemsCreate)
AuthorisedChat = Annotated[AuthorisedRequest[ChatCompletionRequest], Security(_chat_security)]
AuthorisedResponse = Annotated[AuthorisedRequest[ResponseRequest], Security(_response_security)]
AuthorisedCompletionUpdate = Annotated[
    AuthorisedRequest[StoredChatCompletionUpdate], Security(_completion_update_security)
]
AuthorisedInputTokens = Annotated[AuthorisedRequest[InputTokensRequest], Security(_input_tokens_security)]
AuthorisedCompaction = Annotated[AuthorisedRequest[CompactionRequest], Security(_compaction_security)]
AuthorisedCompletion = Annotated[AuthorisedRequest[CompletionRequest], Security(_completion_security)]
AuthorisedEmbeddings = Annotated[AuthorisedRequest[EmbeddingRequest], Security(_embedding_security)]
AuthorisedImages = Annotated[AuthorisedRequest[ImageRequest], Security(_image_security)]
AuthorisedScores = Annotated[AuthorisedRequest[ScoreRequest], Security(_score_security)]
AuthorisedRerank = Annotated[AuthorisedRequest[RerankRequest], Security(_rerank_security)]
AuthorisedModeration = Annotated[AuthorisedRequest[ModerationRequest], Security(_moderation_security)]
AuthorisedTokenisation = Annotated[AuthorisedRequest[TokenizeRequest], Security(_tokenisation_security)]
AuthorisedDetokenisation = Annotated[AuthorisedRequest[DetokenizeRequest], Security(_detokenisation_security)]
AuthorisedConversation = Annotated[AuthorisedRequest[ConversationCreate], Security(_conversation_security)]
AuthorisedConversationUpdate = Annotated[AuthorisedRequest[ConversationUpdate], Security(_conversation_update_security)]
AuthorisedConversationItems = Annotated[
    AuthorisedRequest[ConversationItemsCreate], Security(_conversation_items_security)
]
batch_guard, file_guard = ApiKeySecurity(Scope.BATCHES), ApiKeySecurity(Scope.FILES)
"""Guards of routes whose body `body_of` reads: with the caller's own guard a request is authenticated once."""
ChatCaller = Annotated[Principal, Security(ApiKeySecurity(Scope.CHAT_COMPLETIONS))]
ImageCaller = Annotated[Principal, Security(ApiKeySecurity(Scope.IMAGES))]
BatchCaller = Annotated[Principal, Security(batch_guard)]
FileCaller = Annotated[Principal, Security(file_guard)]
ModelReader = Annotated[Principal, Security(ApiKeySecurity(Scope.MODELS_READ))]
