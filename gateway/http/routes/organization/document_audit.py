"""Routes of `/v1/organization/document_audit`: whether accesses to documents are recorded in the audit log."""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter, Depends, Response

from auth_billing.audit_log import Event
from gateway.http.api_documentation import document_route
from gateway.http.json_response import json_response
from gateway.http.routes.organization.access import Reader, Writer, admin_body
from gateway.openai.organization.document_audit import DocumentAuditSetting, DocumentAuditUpdate

router = APIRouter(prefix="/v1/organization/document_audit")

Update = Annotated[DocumentAuditUpdate, Depends(admin_body(DocumentAuditUpdate))]


@router.get("", **document_route(DocumentAuditSetting))
async def retrieve_document_audit(admin: Reader) -> Response:
    """Return whether accesses to documents are recorded in the audit log (an extension).

    Answers `GET /v1/organization/document_audit`.
    """
    is_on = await admin.administration.document_audit.is_on(admin.organisation)
    return json_response(DocumentAuditSetting(enabled=is_on))


@router.post("", **document_route(DocumentAuditSetting, body=DocumentAuditUpdate))
async def modify_document_audit(admin: Writer, body: Update) -> Response:
    """Set whether accesses to documents are recorded in the audit log, within five seconds (an extension).

    Answers `POST /v1/organization/document_audit`.
    """
    await admin.administration.document_audit.set(admin.actor, on=body.enabled)
    await admin.record(Event.DOCUMENT_AUDIT_UPDATED, admin.organisation, details={"enabled": body.enabled})
    return json_response(DocumentAuditSetting(enabled=body.enabled))
