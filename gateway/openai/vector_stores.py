"""Request and response models of `/v1/vector_stores`, from OpenAI's specification."""

from __future__ import annotations

from typing import Annotated, Literal, Self

from pydantic import AfterValidator, Field, StringConstraints, model_validator
from pydantic_core import PydanticCustomError

from gateway.openai.base import ApiModel, Ignored, RequestBody, conflict, missing
from gateway.openai.pagination import Deleted, ItemList, OrderedPageQuery
from gateway.openai.query_parameters import QueryText
from gateway.openai.sampling import INT64_MAX, Metadata

MAX_FILES_OF_STORE = 500
"""Most files that the creation of a vector store attaches."""
MAX_FILES_OF_BATCH = 2000
"""Most files that one request attaches."""


def _within_64_bits(value: bool | float | str) -> bool | float | str:
    """Refuse integers that MongoDB can't store; a bound of `int` alone would have the union read them as `float`."""
    if isinstance(value, int) and not -INT64_MAX - 1 <= value <= INT64_MAX:
        raise PydanticCustomError("invalid_value", "an integer has 64 bits at most")
    return value


FileId = Annotated[str, StringConstraints(min_length=1, max_length=64)]
Name = Annotated[str, StringConstraints(max_length=256)]
AttributeKey = Annotated[str, StringConstraints(min_length=1, max_length=64, pattern=r"^[^\x00-\x1f\x7f]*$")]
AttributeText = Annotated[str, StringConstraints(max_length=512)]
AttributeValue = Annotated[bool | int | float | AttributeText, AfterValidator(_within_64_bits)]
Attributes = Annotated[dict[AttributeKey, AttributeValue], Field(max_length=16)]
FileStatus = Literal["in_progress", "completed", "failed", "cancelled"]


class VectorStoreExpiration(ApiModel):
    """When a vector store expires: `days` after its last use."""

    anchor: Literal["last_active_at"]
    days: Annotated[int, Field(ge=1, le=365)]


class StaticChunking(ApiModel):
    """Sizes of passages in tokens."""

    max_chunk_size_tokens: Annotated[int, Field(ge=100, le=4096)]
    chunk_overlap_tokens: Annotated[int, Field(ge=0, le=2048)]

    @model_validator(mode="after")
    def _overlaps_by_half_at_most(self) -> Self:
        if self.chunk_overlap_tokens > self.max_chunk_size_tokens // 2:
            raise conflict("chunk_overlap_tokens", "it must not exceed half of 'max_chunk_size_tokens'")
        return self


class ChunkingStrategy(ApiModel):
    """How a file is cut into passages: `auto`, or `static` with the sizes in the field `static`."""

    type: Literal["auto", "static"]
    static: StaticChunking | None = None

    @model_validator(mode="after")
    def _has_sizes(self) -> Self:
        if self.type == "static" and self.static is None:
            raise missing("static", "it must be given with the type 'static'")
        return self

    @property
    def sizes(self) -> StaticChunking | None:
        """The sizes of the strategy `static`; `None`: those of `auto`."""
        return self.static if self.type == "static" else None


class VectorStoreCreate(RequestBody):
    """Body of `POST /v1/vector_stores`."""

    name: Name | None = None
    """Name of the vector store, for people."""
    description: Ignored[Annotated[str, StringConstraints(max_length=4096)] | None] = None
    """OpenAI's vector stores don't show it either; `metadata` is shown."""
    file_ids: Annotated[list[FileId], Field(max_length=MAX_FILES_OF_STORE)] | None = None
    """Ids of files to import, at most 500."""
    chunking_strategy: ChunkingStrategy | None = None
    """How these files are cut into passages, as for `/v1/vector_stores/{vector_store_id}/files`."""
    expires_after: VectorStoreExpiration | None = None
    """Days after its last use (`anchor` is `last_active_at`) at which the vector store expires; default: never."""
    metadata: Metadata | None = None
    """Pairs that are attached to the vector store."""


class VectorStoreUpdate(RequestBody):
    """Body of `POST /v1/vector_stores/{vector_store_id}`. Fields that are left out keep their values."""

    name: Name | None = None
    """New name; null keeps the name."""
    expires_after: VectorStoreExpiration | None = None
    """New expiry; null: the vector store does not expire."""
    metadata: Metadata | None = None
    """The pairs that replace those of the vector store; null for none."""


class VectorStoreFileCreate(RequestBody):
    """Body of `POST /v1/vector_stores/{vector_store_id}/files`."""

    file_id: FileId
    """Id of the file to import."""
    attributes: Attributes | None = None
    """Up to 16 pairs by which searches can be filtered; values are strings, numbers or booleans."""
    chunking_strategy: ChunkingStrategy | None = None
    """`auto` (default), or `static` with `max_chunk_size_tokens` and `chunk_overlap_tokens`. No passage is longer than
    the embedding model reads; tokens are estimated."""


class VectorStoreFileUpdate(RequestBody):
    """Body of `POST /v1/vector_stores/{vector_store_id}/files/{file_id}`."""

    attributes: Attributes | None
    """The pairs that replace those of the file; null for none."""


class FileBatchCreate(RequestBody):
    """Body of `POST /v1/vector_stores/{vector_store_id}/file_batches`."""

    file_ids: Annotated[list[FileId], Field(min_length=1, max_length=MAX_FILES_OF_BATCH)] | None = None
    """Ids of files to import, at most 2,000."""
    files: Annotated[list[VectorStoreFileCreate], Field(min_length=1, max_length=MAX_FILES_OF_BATCH)] | None = None
    """Instead of `file_ids`: files with attributes and a chunking strategy of their own."""
    attributes: Attributes | None = None
    """Attributes of all `file_ids`."""
    chunking_strategy: ChunkingStrategy | None = None
    """Chunking strategy of all `file_ids`."""

    @model_validator(mode="after")
    def _has_one_list(self) -> Self:
        if self.file_ids is None and self.files is None:
            raise missing("file_ids", "it or 'files' must be given")
        if self.file_ids is not None and self.files is not None:
            raise conflict("files", "it and 'file_ids' exclude each other")
        return self

    @property
    def all_files(self) -> list[VectorStoreFileCreate]:
        """The files to attach, each with its attributes and its chunking strategy."""
        if self.files is not None:
            return self.files
        return [
            VectorStoreFileCreate(file_id=each, attributes=self.attributes, chunking_strategy=self.chunking_strategy)
            for each in self.file_ids or ()
        ]


class FileCounts(ApiModel):
    """Numbers of files by the state of their import."""

    in_progress: int
    completed: int
    failed: int
    cancelled: int
    total: int


class VectorStoreObject(ApiModel):
    """One vector store of the project."""

    id: str
    object: Literal["vector_store"] = "vector_store"
    created_at: int
    name: str
    usage_bytes: int
    file_counts: FileCounts
    status: Literal["expired", "in_progress", "completed"]
    expires_after: VectorStoreExpiration | None
    expires_at: int | None
    last_active_at: int | None
    metadata: dict[str, str]
    embedding_model: str
    """An extension: the model that embeds its files and queries."""


class VectorStoreList(ItemList[VectorStoreObject]):
    """A page of a project's vector stores."""


class VectorStoreDeleted(Deleted):
    """Confirmation that a vector store was deleted, with its passages; its files are kept."""

    object: Literal["vector_store.deleted"] = "vector_store.deleted"


class LastError(ApiModel):
    """Why the import of a file failed."""

    code: Literal["server_error", "unsupported_file", "invalid_file"]
    message: str


class VectorStoreFileObject(ApiModel):
    """One file of a vector store; its id is that of the file."""

    id: str
    object: Literal["vector_store.file"] = "vector_store.file"
    usage_bytes: int
    created_at: int
    vector_store_id: str
    status: FileStatus
    last_error: LastError | None
    warning: str | None
    """An extension: what of a completed file was not read, such as scanned pages."""
    chunking_strategy: ChunkingStrategy
    attributes: Attributes


class VectorStoreFileList(ItemList[VectorStoreFileObject]):
    """A page of a vector store's files."""


class VectorStoreFileDeleted(Deleted):
    """Confirmation that a file was removed from a vector store; the file itself is kept."""

    object: Literal["vector_store.file.deleted"] = "vector_store.file.deleted"


class FileBatchObject(ApiModel):
    """Files that one request has attached to a vector store."""

    id: str
    object: Literal["vector_store.files_batch"] = "vector_store.files_batch"
    created_at: int
    vector_store_id: str
    status: Literal["in_progress", "completed", "cancelled", "failed"]
    file_counts: FileCounts


class TextContent(ApiModel):
    """A text of a file."""

    type: Literal["text"] = "text"
    text: str


class PassageContent(TextContent):
    """A passage of a file, with its place in the file as extensions."""

    page: int | None
    """An extension: the page or slide that the passage begins on, from 1; null in a format without pages."""
    heading_path: list[str]
    """An extension: the headings above the passage, the outermost first."""
    start: int
    """An extension: offset of the passage's first character in the text of the file."""
    end: int
    """An extension: offset after the passage's last character. A later part of a table has the table's header before
    the text from `start` to `end`."""


class FileContentPage(ApiModel):
    """The text of a file, passage by passage."""

    object: Literal["vector_store.file_content.page"] = "vector_store.file_content.page"
    data: list[PassageContent]
    has_more: bool
    next_page: str | None


class VectorStoreQuery(OrderedPageQuery):
    """Query parameters of `GET /v1/vector_stores`."""

    order: Literal["asc", "desc"] = "desc"
    """Order by time of creation."""
    before: QueryText | None = None
    """Id of the first item of the next page, instead of `after`."""

    @model_validator(mode="after")
    def _one_side(self) -> Self:
        if self.before is not None and self.after is not None:
            raise conflict("before", "it and 'after' exclude each other")
        return self


class VectorStoreFileQuery(VectorStoreQuery):
    """Query parameters of the routes that list files of a vector store."""

    filter: FileStatus | None = None
    """Only files with this status."""
