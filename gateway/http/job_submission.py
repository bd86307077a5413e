"""Admits chat completions and submits the jobs of an HTTP request, whose generation ends when the client disconnects.

`gateway/jobs/submission.py` does the rest, without HTTP.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import AbstractAsyncContextManager
from functools import partial

from fastapi import Request

from auth_billing.access.principal import Principal
from auth_billing.audit_log import Action, Event
from gateway.admission.controller import AdmittedRequest
from gateway.http import rate_limits
from gateway.http.disconnect import disconnected, run_until_disconnect
from gateway.http.document_audit import record_accesses
from gateway.http.gateway import Gateway
from gateway.jobs.generation import Generation
from gateway.jobs.job_builder import Origin, build_chat_job
from gateway.jobs.keyed_billing import SCOPE_KEY, KeyedBilling
from gateway.jobs.prompt_files import PromptFiles
from gateway.jobs.prompt_images import PromptImages
from gateway.openai.chat_completions import ChatCompletionRequest
from gateway.openai.messages import file_ids, user_parts
from router.messages import Job


async def admit_chat(
    request: Request,
    gateway: Gateway,
    caller: Principal,
    body: ChatCompletionRequest,
    *,
    max_seconds: float | None = None,
) -> tuple[AdmittedRequest, Job]:
    """Read files and images of a chat completion, admit it, and return its admission and its job; submit it at once.

    `max_seconds`: seconds until the job's deadline; `None`: the setting `max_request_seconds`.

    Raises:
        Exception: As `read_attachments` and `AdmissionController.admit` do.
    """
    body, images = await read_attachments(request, gateway, caller, body)
    admitted = await gateway.admission.admit(caller, body)
    return admitted, build_chat_job(body, admitted, Origin.of(gateway.settings, max_seconds), images)


async def read_attachments(
    request: Request, gateway: Gateway, caller: Principal, body: ChatCompletionRequest
) -> tuple[ChatCompletionRequest, list[bytes]]:
    """Return a chat completion with texts in place of its files, and its image files in order of the conversation.

    A client that disconnects ends the reading, and nothing of the request is left.

    Raises:
        ClientDisconnected: The client disconnected before all was read.
        InvalidRequest: The model reads no images, or an image or a file can't be read; `param` names it.
        ModelNotFound: The model is unknown, or the caller may not use it.
        ScopeMissing: An image or a file is the project's, and the caller's key lacks the scope `files`.
        BlobsUnavailable, StoreUnavailable: A stored image or file can't be read, or the access not recorded now.
    """
    gateway.admission.check_images(caller, body)
    if not any(part.type != "text" for message in body.messages for part in user_parts(message)):
        return body, []
    return await run_until_disconnect(request.receive, _read(request, gateway, caller, body))


async def _read(
    request: Request, gateway: Gateway, caller: Principal, body: ChatCompletionRequest
) -> tuple[ChatCompletionRequest, list[bytes]]:
    images = await PromptImages(gateway.objects, gateway.addresses, str(request.base_url)).read(caller, body)
    read = await PromptFiles(gateway.files, gateway.prompt_parser).inlined(caller, body)
    accesses = [Action(Event.DOCUMENT_READ, each, caller.project) for each in file_ids(body.messages)]
    await record_accesses(request, caller, accesses)
    return read, images


def submit(
    request: Request, gateway: Gateway, admitted: AdmittedRequest, jobs: Sequence[Job], *, streamed: bool
) -> AbstractAsyncContextManager[Generation]:
    """Submit a request's `jobs` on entry of the context, yield their generation.

    A disconnect of the client abandons it.
    """
    allowance = rate_limits.allowance_of(request)
    leaving = partial(disconnected, request.receive)
    keyed: KeyedBilling | None = request.scope.get(SCOPE_KEY)
    return gateway.jobs.submit(admitted, jobs, allowance, streamed=streamed, disconnected=leaving, keyed=keyed)
