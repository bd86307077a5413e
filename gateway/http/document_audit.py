"""Records accesses to documents by HTTP requests, before each takes effect, where the organisation wants that."""

from __future__ import annotations

from collections.abc import Sequence

from starlette.requests import Request

from auth_billing.access.principal import Principal
from auth_billing.audit_log import Action
from gateway.http.gateway import gateway_of
from stored_objects.vector_stores.audit_actions import uploaded
from stored_objects.vector_stores.vector_stores import NewFile


def client_address(request: Request) -> str:
    """Return the network address of the client that sent `request`; empty for a request of the gateway itself."""
    return "" if request.client is None else request.client.host


async def record_accesses(request: Request, caller: Principal, accesses: Sequence[Action]) -> None:
    """Write the audit log entries of accesses by the caller of `request`, which take effect afterwards.

    Raises:
        StoreUnavailable: The entries can't be written; the access is refused.
    """
    audit = gateway_of(request).administration.document_audit
    await audit.record(caller, accesses, client_address(request))


async def record_uploads(
    request: Request, caller: Principal, vector_store: str, project: str, files: Sequence[NewFile]
) -> None:
    """Write the audit log entries of adding files to the vector store with an id, which follows.

    Raises:
        StoreUnavailable: The entries can't be written; nothing is added.
    """
    await record_accesses(request, caller, [uploaded(vector_store, project, each.file, each.name) for each in files])
