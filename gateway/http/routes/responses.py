"""Routes of `POST /v1/responses`, one job per response, answered whole or as events, and of stored responses."""

from __future__ import annotations

import time
import uuid
from collections.abc import Callable
from functools import partial
from typing import Annotated, Any

import msgspec
import structlog
from fastapi import APIRouter, Depends, Request, Response

from auth_billing.access.principal import Principal
from auth_billing.errors import RecordRefused, StoreUnavailable
from auth_billing.idempotency import KeyedRequest
from gateway.admission.controller import AdmittedRequest
from gateway.answers.collection import collect
from gateway.answers.event_frames import PING
from gateway.answers.idempotency import REQUEST_KEY
from gateway.answers.responses.answer import response_frames, whole_response
from gateway.answers.responses.background_jobs import AcceptedJob
from gateway.answers.responses.background_reader import BackgroundReader
from gateway.answers.responses.background_run import events_of
from gateway.answers.responses.drawn_images import DrawnImages
from gateway.answers.responses.events import ResponseEvents
from gateway.answers.responses.output import ResponseOutput
from gateway.answers.responses.repeated_request import repeated_response
from gateway.answers.responses.response_object import ResponseObject, response_usage
from gateway.answers.responses.search_progress import SearchPlan
from gateway.content_cipher import ContentKind
from gateway.errors import InvalidRequest
from gateway.http import rate_limits
from gateway.http.api_documentation import document_route
from gateway.http.dependencies import (
    AuthorisedCompaction,
    AuthorisedInputTokens,
    AuthorisedRequest,
    AuthorisedResponse,
    ChatCaller,
    CurrentGateway,
)
from gateway.http.dialect import OPENAI
from gateway.http.document_audit import client_address
from gateway.http.document_pages import object_response
from gateway.http.file_search import FileSearchResponse
from gateway.http.gateway import Gateway
from gateway.http.http_errors import response_error
from gateway.http.job_submission import admit_chat, read_attachments, submit
from gateway.http.json_response import json_response
from gateway.http.pagination import page_of, query_of
from gateway.http.response_input import ResponseInput, read_input, response_fields, translated
from gateway.http.routes.blobs import address_of
from gateway.http.routes.idempotent import IdempotentRoute
from gateway.http.sse import EventStream, SharedEventStream
from gateway.http.tokenisation import count_prompt_tokens
from gateway.jobs.image_generation import check_image_tool, with_image_call, with_image_tool
from gateway.jobs.job_builder import Origin, build_chat_job, response_job
from gateway.openai.responses.compaction import (
    MAX_SUMMARY_TOKENS,
    CompactedResponse,
    Compaction,
    CompactionRequest,
    whole_sentences,
)
from gateway.openai.responses.queries import InputItemQuery, ResponseQuery
from gateway.openai.responses.request import InputTokensRequest, ResponseRequest
from gateway.openai.responses.response import (
    DeletedResponse,
    InputItemList,
    InputItemResource,
    InputTokens,
    ModelResponse,
    ResponseStreamEvent,
)
from gateway.openai.responses.stored_items import to_stored, without_ids
from gateway.openai.responses.tools import custom_names, image_tool
from gateway.openai.responses.translation import to_chat
from router.messages import Job
from stored_objects.errors import DocumentNotFound, StorageQuotaExceeded
from stored_objects.project_documents.records import ProjectDocument, ProjectOwner
from stored_objects.responses.responses import StoredResponse, new_document

router = APIRouter(route_class=IdempotentRoute)

_log = structlog.get_logger(__name__)


@router.post(
    "/v1/responses",
    **document_route(ModelResponse, body=ResponseRequest, streamed=ResponseStreamEvent),
)
async def create_response(request: Request, authorised: AuthorisedResponse) -> Response:
    """Generate a response to input items; with `stream`, send its events as Server-Sent Events.

    Answers `POST /v1/responses`.
    """
    caller, body, gateway = authorised
    keyed: KeyedRequest | None = request.scope.get(REQUEST_KEY) if body.background else None
    response_id, job_id = f"resp_{uuid.uuid4().hex}", ""
    if keyed is not None:
        response_id, begun = await repeated_response(keyed, gateway.responses, ProjectOwner.of(caller))
        if begun is not None:
            return _background_answer(request, gateway, caller, begun, streamed=bool(body.stream))
        job_id = f"{response_id}-{uuid.uuid4().hex[:8]}"  # a run at a gateway that died may have had a job
    with response_fields():
        given = await read_input(gateway, caller, body)
        output = ResponseOutput(
            response_id,
            partial(address_of, request),
            first_item=len(given.own),
            custom_tools=custom_names(body.offered_tools),
            summarises=body.summarises,
            encrypt=_encryption(gateway, caller, ContentKind.REASONING) if body.includes_encrypted_reasoning else None,
            images=DrawnImages(gateway.objects) if body.draws else None,
            searches=body.file_search is not None,
        )
        keep = partial(_keep, gateway, ProjectOwner.of(caller) if body.stores else None, given)
        max_seconds = gateway.settings.max_background_seconds if body.background else None
        if body.file_search is None:
            plan, chat = None, await translated(given.items, partial(to_chat, body, given.items))
            admitted, job = await admit_chat(request, gateway, caller, chat, max_seconds=max_seconds)
        else:
            admitted, job, plan = await _admit_search(request, authorised, given, max_seconds=max_seconds)
        if (number := image_tool(body.offered_tools)) is not None:
            check_image_tool(admitted.model, f"tools[{number}].type")
        if body.must_draw:
            job = with_image_call(job)
        elif body.may_draw:
            job = with_image_tool(job)
        job = response_job(job, job_id or response_id, drops_turns=body.truncation == "auto")
        response = ResponseObject.of(response_id, body, model=admitted.model.name, service_class=admitted.service_class)
        accepted = AcceptedJob(admitted, job, rate_limits.allowance_of(request), plan)
        if body.background:
            queued = StoredResponse(
                response.in_state("queued"), to_stored(given.own, response_id), [each.id for each in given.context]
            )
            (document,) = gateway.documents.responses.created(ProjectOwner.of(caller), await new_document(queued))
            await gateway.background.start(document, accepted)
            return _background_answer(request, gateway, caller, queued, streamed=bool(body.stream))
        events = ResponseEvents(response, output)
        if plan is not None:
            searching = FileSearchResponse(request, authorised, accepted, events, keep)
            await searching.begin()
            if body.stream:
                return EventStream(gateway, searching, searching.frames())
            return object_response(await searching.whole())
        async with submit(request, gateway, admitted, [job], streamed=bool(body.stream)) as generation:
            if body.stream:
                await generation.wait_for_first_reply(gateway.settings.header_delay)
                return EventStream(gateway, generation, response_frames(generation, events, keep, response_error))
            return object_response(await whole_response(generation, events, keep))


@router.post("/v1/responses/input_tokens", **document_route(InputTokens, body=InputTokensRequest))
async def count_input_tokens(request: Request, authorised: AuthorisedInputTokens) -> Response:
    """Return the number of tokens that the prompt of a response would have (`POST /v1/responses/input_tokens`)."""
    caller, body, gateway = authorised
    with response_fields():
        given = await read_input(gateway, caller, body)
        chat = await translated(given.items, partial(to_chat, body, given.items))
        count = await count_prompt_tokens(request, gateway, caller, chat)
    return json_response(InputTokens(input_tokens=count))


@router.post("/v1/responses/compact", **document_route(CompactedResponse, body=CompactionRequest))
async def compact_response(request: Request, authorised: AuthorisedCompaction) -> Response:
    """Have the model summarise a context; return the items that stand for it in the input of later requests.

    Answers `POST /v1/responses/compact`.
    """
    caller, body, gateway = authorised
    with response_fields():
        given = await read_input(gateway, caller, body)
        compaction = Compaction(given.items)
        chat = await translated(given.items, partial(compaction.summary_request, body))
        admitted, job = await admit_chat(request, gateway, caller, chat)
        most = min(gateway.settings.default_max_tokens, MAX_SUMMARY_TOKENS)
        sampling = msgspec.structs.replace(job.sampling, default_max_tokens=most)
        job = msgspec.structs.replace(job, sampling=sampling)
        async with submit(request, gateway, admitted, [job], streamed=False) as generation:
            (summary,) = await collect(generation)
            usage = response_usage(generation.usage, generation.parts)
    if not (text := "".join(summary.text).strip()):
        raise InvalidRequest("The model wrote no summary of this context.", param="model", code="compaction_failed")
    if summary.finish_reason == "length":
        text = whole_sentences(text)
    if not text or summary.finish_reason not in ("stop", "length"):
        message = f"The summary of this context is not whole: it ended with the reason '{summary.finish_reason}'."
        raise InvalidRequest(message, param="model", code="compaction_failed")
    response_id = f"resp_{uuid.uuid4().hex}"
    encrypted = _encryption(gateway, caller, ContentKind.SUMMARY)(text)
    compacted = {
        "id": response_id,
        "object": "response.compaction",
        "created_at": int(time.time()),
        "output": compaction.output(response_id, encrypted),
        "usage": usage,
    }
    return object_response(compacted)


@router.get("/v1/responses/{response_id}", **document_route(ModelResponse, query=ResponseQuery))
async def retrieve_response(
    response_id: str,
    caller: ChatCaller,
    gateway: CurrentGateway,
    request: Request,
    query: Annotated[ResponseQuery, Depends(query_of(ResponseQuery))],
) -> Response:
    """Return a stored response of the caller's project; with `stream`, the events of a background response.

    Answers `GET /v1/responses/{response_id}`.
    """
    stored = await gateway.responses.find(ProjectOwner.of(caller), response_id)
    if not query.stream:
        return object_response(await _reader(request, gateway, caller).current(stored))
    _check_background(stored, "stream")
    return _background_stream(request, gateway, caller, stored, query.starting_after)


@router.post("/v1/responses/{response_id}/cancel", **document_route(ModelResponse))
async def cancel_response(response_id: str, request: Request, caller: ChatCaller, gateway: CurrentGateway) -> Response:
    """Cancel a background response; one that has ended is returned as it is.

    Answers `POST /v1/responses/{response_id}/cancel`.
    """
    stored = await gateway.responses.find(ProjectOwner.of(caller), response_id)
    _check_background(stored, "response_id")
    await _reader(request, gateway, caller).cancel(response_id)
    return object_response((await gateway.responses.find(ProjectOwner.of(caller), response_id)).response)


@router.delete("/v1/responses/{response_id}", **document_route(DeletedResponse))
async def delete_response(response_id: str, request: Request, caller: ChatCaller, gateway: CurrentGateway) -> Response:
    """Delete a stored response of the caller's project, with its items; one that is being written is cancelled first.

    Answers `DELETE /v1/responses/{response_id}`.
    """
    await gateway.responses.find(ProjectOwner.of(caller), response_id)
    await _reader(request, gateway, caller).cancel(response_id)
    await gateway.responses.delete(ProjectOwner.of(caller), response_id)
    return json_response(DeletedResponse(id=response_id))


@router.get("/v1/responses/{response_id}/input_items", **document_route(InputItemList, query=InputItemQuery))
async def list_input_items(
    response_id: str,
    caller: ChatCaller,
    gateway: CurrentGateway,
    query: Annotated[InputItemQuery, Depends(query_of(InputItemQuery))],
) -> Response:
    """List the input items that a stored response was requested with, those of its own request.

    Answers `GET /v1/responses/{response_id}/input_items`.
    """
    stored = await gateway.responses.find(ProjectOwner.of(caller), response_id)
    items = [InputItemResource.model_validate(item) for item in stored.items]
    return json_response(page_of(InputItemList, items if query.order == "asc" else items[::-1], query))


async def _admit_search(
    request: Request,
    authorised: AuthorisedRequest[ResponseRequest],
    given: ResponseInput,
    *,
    max_seconds: float | None,
) -> tuple[AdmittedRequest, Job, SearchPlan]:
    """Admit a response with the tool `file_search`; return its job without passages, and its searches.

    Raises:
        Exception: As `AnswerSearcher.stores`, `read_attachments` and `AdmissionController.admit` do.
    """
    caller, body, gateway = authorised
    assert body.file_search is not None  # noqa: S101 - the caller's condition
    await gateway.searcher.stores(caller, body.file_search)
    chat = await translated(given.items, partial(to_chat, body, given.items))
    plain, images = await read_attachments(request, gateway, caller, chat)
    admitted = await gateway.admission.admit(caller, plain)
    job = build_chat_job(plain, admitted, Origin.of(gateway.settings, max_seconds), images)
    return admitted, job, SearchPlan.of(body, chat, plain, client_address(request))


def _encryption(gateway: Gateway, caller: Principal, kind: ContentKind) -> Callable[[str], str]:
    return partial(gateway.contents.encrypt, ProjectOwner.of(caller), kind)


def _reader(request: Request, gateway: Gateway, caller: Principal) -> BackgroundReader:
    events = partial(events_of, address=partial(address_of, request), objects=gateway.objects)
    return BackgroundReader(gateway.background, gateway.responses, ProjectOwner.of(caller), events)


def _background_answer(
    request: Request, gateway: Gateway, caller: Principal, stored: StoredResponse, *, streamed: bool
) -> Response:
    """Return the answer to a request for a background response: its events, or the response as it was accepted."""
    return _background_stream(request, gateway, caller, stored) if streamed else object_response(stored.response)


def _background_stream(
    request: Request, gateway: Gateway, caller: Principal, stored: StoredResponse, starting_after: int | None = None
) -> Response:
    frames = _reader(request, gateway, caller).frames(stored, starting_after, gateway.stopping)
    headers = {"Cache-Control": "no-cache", "X-Accel-Buffering": "no"}
    return SharedEventStream(gateway, frames, headers, lambda: PING, OPENAI)


def _check_background(stored: StoredResponse, param: str) -> None:
    if not stored.response["background"]:
        raise InvalidRequest(
            "Only responses that were created with 'background' can be cancelled or streamed again.", param=param
        )


async def _keep(
    gateway: Gateway, owner: ProjectOwner | None, given: ResponseInput, response: dict[str, Any]
) -> dict[str, Any]:
    """Store an ended response, unless `owner` is `None`; return it, with `store` false if the store did not take it.

    The tenant has paid for the answer, so it is delivered although nothing can continue it.
    """
    if given.conversation is not None and response["status"] in ("completed", "incomplete"):
        await _append(gateway, given.conversation, given, response)
    if owner is None:
        return response
    try:
        items, earlier = to_stored(given.own, response["id"]), [each.id for each in given.context]
        await gateway.responses.keep(owner, StoredResponse(response, items, earlier))
    except (StoreUnavailable, RecordRefused, StorageQuotaExceeded) as error:
        _log.warning("a response was not stored", response=response["id"], reason=str(error))
        return {**response, "store": False}
    return response


async def _append(
    gateway: Gateway, conversation: ProjectDocument, given: ResponseInput, response: dict[str, Any]
) -> None:
    """Append input and output of an ended response to its conversation; log if that is deleted or can't be written."""
    items = [*to_stored(without_ids(given.own), response["id"]), *response["output"]]
    try:
        await gateway.conversations.append(conversation, items)
    except (StoreUnavailable, RecordRefused, DocumentNotFound, StorageQuotaExceeded) as error:
        _log.warning("a conversation was not continued", conversation=conversation.id, reason=str(error))
