"""Routes of `POST /v1/tokenize` and `/v1/detokenize`, also without `/v1` as in vLLM: a worker's tokenizer answers."""

from __future__ import annotations

from fastapi import APIRouter, Request, Response

from gateway.http.api_documentation import document_route
from gateway.http.dependencies import AuthorisedDetokenisation, AuthorisedTokenisation
from gateway.http.json_response import json_response
from gateway.http.routes.idempotent import IdempotentRoute
from gateway.http.tokenisation import read_chat_prompt, tokenise
from gateway.openai.tokenisation import DetokenizeRequest, DetokenizeResponse, TokenizeRequest, TokenizeResponse
from router.messages import TextPrompt, TokenisationPrompt, TokenPrompt

router = APIRouter(route_class=IdempotentRoute)


@router.post("/tokenize", include_in_schema=False)
@router.post("/v1/tokenize", **document_route(TokenizeResponse, body=TokenizeRequest))
async def create_tokens(request: Request, authorised: AuthorisedTokenisation) -> Response:
    """Return the token ids of a text, or of a conversation in the model's chat template (`POST /v1/tokenize`)."""
    caller, body, gateway = authorised
    chat = body.chat
    prompt = TokenisationPrompt(
        source=TextPrompt(body.prompt or "")
        if chat is None
        else await read_chat_prompt(request, gateway, caller, chat),
        add_special_tokens=body.add_special_tokens is not False,
        names=bool(body.return_token_strs),
    )
    admitted = await gateway.admission.admit_tokenisation(caller, body.model)
    tokens = await tokenise(request, gateway, admitted, prompt)
    return json_response(
        TokenizeResponse(
            count=tokens.count,
            max_model_len=admitted.model.max_model_len,
            tokens=tokens.token_ids,
            token_strs=tokens.names if prompt.names else None,
        )
    )


@router.post("/detokenize", include_in_schema=False)
@router.post("/v1/detokenize", **document_route(DetokenizeResponse, body=DetokenizeRequest))
async def create_text(request: Request, authorised: AuthorisedDetokenisation) -> Response:
    """Return the text of token ids (`POST /v1/detokenize`)."""
    caller, body, gateway = authorised
    admitted = await gateway.admission.admit_tokenisation(caller, body.model)
    prompt = TokenisationPrompt(source=TokenPrompt(body.tokens))
    tokens = await tokenise(request, gateway, admitted, prompt)
    return json_response(DetokenizeResponse(prompt=tokens.text))
