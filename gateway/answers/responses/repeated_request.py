"""Finds the background response that an earlier run of a request with an idempotency key has begun.

The id of such a response follows from its request, so a request that is repeated after its gateway died, before the
answer to it was stored, finds the response instead of creating a second one.
"""

from __future__ import annotations

import time
from itertools import count

from auth_billing.idempotency import RETENTION_PERIOD, KeyedRequest
from stored_objects.errors import DocumentNotFound
from stored_objects.project_documents.records import ProjectOwner
from stored_objects.responses.responses import StoredResponse, StoredResponses


async def repeated_response(
    request: KeyedRequest, responses: StoredResponses, owner: ProjectOwner
) -> tuple[str, StoredResponse | None]:
    """Return the id of the request's background response, and the response if an earlier run has begun it.

    A key may be used again after its retention period, so a response that is older belongs to another request.

    Raises:
        StoreUnavailable: It is not known whether the response was begun.
    """
    oldest = time.time() - RETENTION_PERIOD
    for number in count():
        response_id = f"resp_{request.derived_id(number)}"
        try:
            found = await responses.find(owner, response_id)
        except DocumentNotFound:
            break
        if found.response["created_at"] >= oldest:
            return response_id, found
    return response_id, None
