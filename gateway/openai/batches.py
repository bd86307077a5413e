"""Request and response models of `/v1/batches`, from OpenAI's specification."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Annotated, Literal

from pydantic import StringConstraints

from auth_billing.access.scopes import Scope
from gateway.openai.base import ApiModel, RequestBody
from gateway.openai.files import ExpiresAfter
from gateway.openai.pagination import ItemList
from gateway.openai.sampling import Metadata
from stored_objects.project_documents.batches import Endpoint

SCOPES: Mapping[Endpoint, Scope] = MappingProxyType(
    {
        "/v1/chat/completions": Scope.CHAT_COMPLETIONS,
        "/v1/responses": Scope.CHAT_COMPLETIONS,
        "/v1/completions": Scope.COMPLETIONS,
        "/v1/embeddings": Scope.EMBEDDINGS,
        "/v1/score": Scope.SCORES,
        "/v1/rerank": Scope.SCORES,
    }
)
"""Scope that the lines of a batch need, by endpoint."""


class BatchCreate(RequestBody):
    """Body of `POST /v1/batches`."""

    input_file_id: Annotated[str, StringConstraints(min_length=1, max_length=64)]
    """Id of a file with the purpose `batch`: JSON lines of `custom_id`, `method`, `url` and `body`, at most 50,000
    lines and 200 MiB."""
    endpoint: Endpoint
    """Endpoint of all lines; `/v1/score` and `/v1/rerank` are extensions."""
    completion_window: Literal["24h"]
    """Time after which lines that have not begun are given up."""
    metadata: Metadata | None = None
    """Pairs that are kept with the batch."""
    output_expires_after: ExpiresAfter | None = None
    """When the output files are deleted; default: never."""


class RequestCounts(ApiModel):
    """Numbers of the lines of a batch, as far as their results are stored."""

    total: int
    completed: int
    failed: int


class LineError(ApiModel):
    """Why a batch failed."""

    code: str
    message: str
    param: str | None = None
    line: int | None = None


class LineErrors(ApiModel):
    """The errors of a batch that failed."""

    object: Literal["list"] = "list"
    data: list[LineError]


class InputTokensDetails(ApiModel):
    """Details of `input_tokens`."""

    cached_tokens: int


class OutputTokensDetails(ApiModel):
    """Details of `output_tokens`."""

    reasoning_tokens: int


class BatchUsage(ApiModel):
    """Tokens of the answers of a batch."""

    input_tokens: int
    input_tokens_details: InputTokensDetails
    output_tokens: int
    output_tokens_details: OutputTokensDetails
    total_tokens: int


class BatchObject(ApiModel):
    """One batch of the project."""

    id: str
    object: Literal["batch"] = "batch"
    endpoint: str
    model: str | None
    errors: LineErrors | None
    input_file_id: str
    input_file_name: str
    """Name of the input file, also of one that was deleted: an extension."""
    completion_window: Literal["24h"] = "24h"
    status: str
    output_file_id: str | None
    error_file_id: str | None
    created_at: int
    in_progress_at: int | None
    expires_at: int
    finalizing_at: int | None
    completed_at: int | None
    failed_at: int | None
    expired_at: int | None
    cancelling_at: int | None
    cancelled_at: int | None
    request_counts: RequestCounts
    usage: BatchUsage
    metadata: dict[str, str] | None


class BatchList(ItemList[BatchObject]):
    """A page of a project's batches, newest first."""
