"""What routes ask for by type: the gateway, the caller, and the request's validated body.

The body is read here rather than by FastAPI, whose reader has no limits and whose parser is not strict. It is read
after the caller is known. What is asked of models comes as one dependency: FastAPI's price is per dependency, and is
paid for every request.
"""

from __future__ import annotations

from collections.abc import Callable, Coroutine
from typing import Annotated, Any, Generic, NamedTuple, TypeVar

from fastapi import Depends, Request, Security

from auth_billing.keys.scopes import Scope
from auth_billing.service import Principal
from gateway.http import rate_limits
from gateway.http.authenticate import ApiKeySecurity
from gateway.http.gateway import Gateway, gateway_of
from gateway.openai.base import RequestBody
from gateway.openai.chat_completions import ChatCompletionRequest
from gateway.openai.completions import CompletionRequest
from gateway.openai.embeddings import EmbeddingRequest
from runtime import strict_json

Body = TypeVar("Body", bound=RequestBody)


class Asking(NamedTuple, Generic[Body]):
    """Who asks for what, and of which gateway."""

    caller: Principal
    body: Body
    gateway: Gateway


class Asked(ApiKeySecurity, Generic[Body]):
    """The body of callers with a right to `scope`, read as `kind`."""

    def __init__(self, scope: Scope, kind: type[Body]) -> None:
        super().__init__(scope)
        self._kind = kind

    async def __call__(self, request: Request) -> Asking[Body]:  # type: ignore[override]  # more than the caller
        """The caller and the body; raises as `caller` does.

        Raises:
            BrokerDown, Overloaded, RateLimitExceeded, StoreUnavailable: it may not run now.
            MalformedRequest, InvalidRequest: the body is not what it should be.
        """
        caller = await self.caller(request)
        return Asking(caller, await _read(request, caller, self._kind), gateway_of(request))


def body_of(kind: type[Body], guard: ApiKeySecurity) -> Callable[..., Coroutine[Any, Any, Body]]:
    """A dependency that reads the body as `kind`, for callers whom `guard` lets in."""

    async def read(request: Request, caller: Principal = Security(guard)) -> Body:  # noqa: B008 - as FastAPI has it
        return await _read(request, caller, kind)

    return read


async def _read(request: Request, caller: Principal, kind: type[Body]) -> Body:
    gateway = gateway_of(request)
    gateway.protection.check()
    await rate_limits.enter(request, caller)
    strict_json.check_headers(request.headers, gateway.settings.max_body_bytes)
    raw = await strict_json.read_body(request.stream(), gateway.settings.max_body_bytes, gateway.settings.body_timeout)
    return await strict_json.parse(raw, kind.parse)


async def _the_gateway(request: Request) -> Gateway:
    return gateway_of(request)  # a coroutine: FastAPI calls plain functions in a thread, which costs more than all else


TheGateway = Annotated[Gateway, Depends(_the_gateway)]

AskingChat = Annotated[Asking[ChatCompletionRequest], Security(Asked(Scope.CHAT_COMPLETIONS, ChatCompletionRequest))]
AskingCompletion = Annotated[Asking[CompletionRequest], Security(Asked(Scope.COMPLETIONS, CompletionRequest))]
AskingEmbeddings = Annotated[Asking[EmbeddingRequest], Security(Asked(Scope.EMBEDDINGS, EmbeddingRequest))]
ModelReader = Annotated[Principal, Security(ApiKeySecurity(Scope.MODELS_READ))]
OrganizationReader = Annotated[Principal, Security(ApiKeySecurity(Scope.ORGANIZATION_READ))]
OrganizationAdmin = Annotated[Principal, Security(ApiKeySecurity(Scope.ORGANIZATION_ADMIN))]
