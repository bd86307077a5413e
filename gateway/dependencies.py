"""What routes ask for by type: the gateway, the caller, and the request's validated body.

The body is read here rather than by FastAPI, whose reader has no limits and whose parser is not strict. It is read
after the caller is known.
"""

from __future__ import annotations

from collections.abc import Callable, Coroutine
from typing import Annotated, Any, TypeVar

from fastapi import Depends, Request, Security

from auth_billing.keys.scopes import Scope
from auth_billing.service import Principal
from gateway import rate_limits
from gateway.authenticate import ApiKeySecurity
from gateway.gateway import Gateway, gateway_of
from gateway.openai.base import RequestBody
from gateway.openai.chat_completions import ChatCompletionRequest
from gateway.openai.completions import CompletionRequest
from gateway.openai.embeddings import EmbeddingRequest
from infra.runtime import strict_json

Body = TypeVar("Body", bound=RequestBody)


def body_of(kind: type[Body], guard: ApiKeySecurity) -> Callable[..., Coroutine[Any, Any, Body]]:
    """A dependency that reads the body as `kind`, for callers whom `guard` lets in."""

    async def read(request: Request, caller: Principal = Security(guard)) -> Body:  # noqa: B008 - as FastAPI has it
        gateway_of(request).protection.check()
        await rate_limits.enter(request, caller)
        settings = gateway_of(request).settings
        strict_json.check_headers(request.headers, settings.max_body_bytes)
        raw = await strict_json.read_body(request.stream(), settings.max_body_bytes, settings.body_timeout)
        return await strict_json.parse(raw, kind.parse)

    return read


async def _the_gateway(request: Request) -> Gateway:
    return gateway_of(request)  # a coroutine: FastAPI calls plain functions in a thread, which costs more than all else


TheGateway = Annotated[Gateway, Depends(_the_gateway)]

_chat, _completions = ApiKeySecurity(Scope.CHAT_COMPLETIONS), ApiKeySecurity(Scope.COMPLETIONS)
_embeddings, _models = ApiKeySecurity(Scope.EMBEDDINGS), ApiKeySecurity(Scope.MODELS_READ)

ChatCaller = Annotated[Principal, Security(_chat)]
ChatBody = Annotated[ChatCompletionRequest, Depends(body_of(ChatCompletionRequest, _chat))]
CompletionCaller = Annotated[Principal, Security(_completions)]
CompletionBody = Annotated[CompletionRequest, Depends(body_of(CompletionRequest, _completions))]
EmbeddingCaller = Annotated[Principal, Security(_embeddings)]
EmbeddingBody = Annotated[EmbeddingRequest, Depends(body_of(EmbeddingRequest, _embeddings))]
ModelReader = Annotated[Principal, Security(_models)]
OrganizationReader = Annotated[Principal, Security(ApiKeySecurity(Scope.ORGANIZATION_READ))]
OrganizationAdmin = Annotated[Principal, Security(ApiKeySecurity(Scope.ORGANIZATION_ADMIN))]
