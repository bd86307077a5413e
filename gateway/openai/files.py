"""Request and response models of `/v1/files` and `/v1/uploads`, from OpenAI's specification."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Annotated, Any, Literal, Self

from pydantic import Field, StringConstraints, field_validator
from pydantic_core import PydanticCustomError

from gateway.openai.base import ApiModel, Ignored, OmitIfNone, RequestBody
from gateway.openai.pagination import Deleted, ItemList
from gateway.openai.query_parameters import QueryInt, QueryParameters, QueryText
from stored_objects.files.files import Purpose
from stored_objects.files.uploads import MAX_PARTS

HOUR, MONTH = 3600, 30 * 24 * 3600
_FORM_FIELD = re.compile(r"expires_after\[(anchor|seconds)\]")
_NUMBER = re.compile(r"[0-9]{1,12}")


def _purpose(value: str) -> str:
    if value == "fine-tune":
        raise PydanticCustomError("invalid_value", "no model is fine-tuned here, so nothing reads such files")
    if value == Purpose.BATCH_OUTPUT or value not in list(Purpose):
        known = ", ".join(f"'{each}'" for each in Purpose if each is not Purpose.BATCH_OUTPUT)
        raise PydanticCustomError("invalid_value", "it must be one of {known}", {"known": known})
    return value


_PURPOSES = {"enum": [each.value for each in Purpose if each is not Purpose.BATCH_OUTPUT]}


class ExpiresAfter(ApiModel):
    """When a file expires: `seconds` after it was created, an hour to 30 days."""

    anchor: Literal["created_at"]
    seconds: Annotated[int, Field(ge=HOUR, le=MONTH)]


class FilePolicy(RequestBody):
    """The fields that all requests for a new file have."""

    purpose: Annotated[str, Field(json_schema_extra=_PURPOSES)]
    """`batch` (input of batches), `vision` (images in prompts), `assistants`, `user_data` or `evals`; `fine-tune` is
    refused."""
    expires_after: ExpiresAfter | None = None
    """When the file is deleted; default: files of purpose `batch` after 30 days, others never."""

    _is_known = field_validator("purpose")(_purpose)

    @property
    def lifetime(self) -> float | None:
        """Seconds for which the file is kept; `None`: as its purpose has it."""
        return None if self.expires_after is None else float(self.expires_after.seconds)


class FileCreate(FilePolicy):
    """Fields of the form of `POST /v1/files`, besides `file`, the file itself."""

    @classmethod
    def parse_form(cls, fields: Mapping[str, str]) -> Self:
        """Validate the fields of a form, in which `expires_after[seconds]=3600` sets one of an object's fields.

        Raises:
            InvalidRequest: a field is invalid; `param` names it.
        """
        expiry: dict[str, Any] = {}
        for name in fields:
            if (nested := _FORM_FIELD.fullmatch(name)) is not None:
                text = fields[name]
                expiry[nested[1]] = int(text) if nested[1] == "seconds" and _NUMBER.fullmatch(text) else text
        return cls.parse({**({"expires_after": expiry} if expiry else {}), **fields})


class UploadCreate(FilePolicy):
    """Body of `POST /v1/uploads`."""

    filename: Annotated[str, StringConstraints(min_length=1, max_length=1024)]
    """Name of the file; folders and control characters are left out."""
    bytes: Annotated[int, Field(ge=1)]
    """Number of bytes of the whole file; at most the operator's limit, 8 GiB by default."""
    mime_type: Ignored[Annotated[str, StringConstraints(max_length=256)]]
    """Every file is served as a download without a type."""


class UploadComplete(RequestBody):
    """Body of `POST /v1/uploads/{upload_id}/complete`."""

    part_ids: Annotated[list[Annotated[str, StringConstraints(max_length=64)]], Field(max_length=MAX_PARTS)]
    """Ids of the parts in the order of their bytes."""
    md5: Annotated[str, StringConstraints(max_length=64)] | None = None
    """MD5 checksum of the whole file in hexadecimal digits, which is compared."""


class FileObject(ApiModel):
    """One file of the project."""

    id: str
    object: Literal["file"] = "file"
    bytes: int
    created_at: int
    expires_at: OmitIfNone[int] = None
    filename: str
    purpose: str
    status: Literal["processed"] = "processed"


class FileList(ItemList[FileObject]):
    """A page of a project's files."""


class FileDeleted(Deleted):
    """Confirmation that a file was deleted."""

    object: Literal["file"] = "file"


class FileQuery(QueryParameters):
    """Query parameters of `GET /v1/files`."""

    purpose: QueryText | None = None
    """Only files with this purpose."""
    limit: Annotated[QueryInt, Field(ge=1, le=10_000)] = 10_000
    """Maximum number of files per page."""
    order: Literal["asc", "desc"] = "desc"
    """Order by time of creation."""
    after: QueryText | None = None
    """Id of the last file of the previous page."""


class Upload(ApiModel):
    """An upload in parts; `file` is the file that it has become."""

    id: str
    object: Literal["upload"] = "upload"
    bytes: int
    created_at: int
    expires_at: int
    filename: str
    purpose: str
    status: Literal["pending", "completed", "cancelled"]
    file: FileObject | None = None


class UploadPart(ApiModel):
    """One part of an upload."""

    id: str
    object: Literal["upload.part"] = "upload.part"
    created_at: int
    upload_id: str
