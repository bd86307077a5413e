"""Request and response models of `/v1/organization/document_audit` (an extension)."""

from __future__ import annotations

from typing import Literal

from gateway.openai.base import ApiModel, RequestBody


class DocumentAuditSetting(ApiModel):
    """Whether accesses to the organisation's documents are recorded in its audit log."""

    object: Literal["organization.document_audit"] = "organization.document_audit"
    enabled: bool


class DocumentAuditUpdate(RequestBody):
    """Body of `POST /v1/organization/document_audit`."""

    enabled: bool
    """Whether accesses to documents are recorded in the audit log."""
