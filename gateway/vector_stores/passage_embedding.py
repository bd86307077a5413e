"""Embeds passages by keyed requests to `/v1/embeddings` of the gateway's own application, in the background.

So they are admitted, limited and billed as any other embeddings, of the class `flex`, and another gateway that repeats
a request after a crash gets the stored answer instead of a second bill.
"""

from __future__ import annotations

import asyncio
import base64
import json
from collections.abc import Sequence
from typing import Any

from starlette.types import ASGIApp

from auth_billing.access.principal import Principal
from auth_billing.idempotency import KeyedRequest
from gateway.http.internal_requests import MAX_TRIES, InternalAnswer, request_internally

ENDPOINT = "/v1/embeddings"
CUT_SHARE = 2 / 3
"""Share of its longest text to which a request is cut that the model could not read."""
MAX_CUTS = 12
"""Times that the texts of a request are cut."""
BUSY_TIME = 60.0
"""Seconds of waiting for a busy service after which an import is put back."""
UNKNOWN_MODEL_WAIT = 2.0
"""Seconds between two requests to a model that this gateway does not know."""


class EmbeddingRefused(Exception):
    """The embedding model does not embed the passages; the message is a sentence for people."""


class EmbeddingBusy(Exception):
    """The service has been too busy, or the project over its limits, for `BUSY_TIME`: the request can come later."""


async def embed(app: ASGIApp, principal: Principal, model: str, texts: Sequence[str], key: str) -> list[bytes]:
    """Return the vectors of `texts`, each float32 in little-endian order, by requests of `principal` with a `key`.

    Requests are repeated for a minute while the service is busy. The vector of a text that the model can't read whole
    is that of its beginning; a refused request costs nothing.

    Raises:
        EmbeddingRefused: the principal may not use the model or can't pay, or the model refuses the texts.
        EmbeddingBusy: the service stays busy, or another gateway was faster.
    """
    given, cuts, tries, waited = list(texts), 0, 0, 0.0
    while True:
        fields = {"model": model, "input": given, "encoding_format": "base64"}
        body = json.dumps(fields, ensure_ascii=False).encode()
        answer = await request_internally(app, principal, ENDPOINT, f"{key}:{cuts}", body)
        tries += 1
        if answer.status == 200:
            return await asyncio.to_thread(_vectors, answer.body)
        error = _error(answer)
        if error.get("code") == "context_length_exceeded" and cuts < MAX_CUTS:
            longest = int(max(map(len, given)) * CUT_SHARE)
            given, cuts, tries = [each[:longest] for each in given], cuts + 1, 0
            continue
        if error.get("code") == "idempotent_answer_not_kept":
            raise EmbeddingBusy("another gateway has stored the vectors of these passages meanwhile")
        wait = answer.wait_before_retry(tries)
        if error.get("code") == "model_not_found" and tries < MAX_TRIES:
            wait = UNKNOWN_MODEL_WAIT  # a gateway that has just started may not have heard of it
        if wait is None:
            raise EmbeddingRefused(str(error.get("message") or "The embedding model does not answer."))
        if answer.is_busy:
            waited += wait
            if waited > BUSY_TIME:
                raise EmbeddingBusy(f"the embedding model '{model}' answers {answer.status}")
        await asyncio.sleep(wait)


def keyed_requests(principal: Principal, key: str) -> list[KeyedRequest]:
    """Return all requests that `embed` can have made with a `key`, for `IdempotentRequests.drop_answers`."""
    return [
        KeyedRequest(principal.tenant, principal.project, ENDPOINT, f"{key}:{cuts}", "") for cuts in range(MAX_CUTS + 1)
    ]


def _vectors(body: bytes) -> list[bytes]:
    return [base64.b64decode(each["embedding"]) for each in json.loads(body)["data"]]


def _error(answer: InternalAnswer) -> dict[str, Any]:
    try:
        error = json.loads(answer.body)["error"]
    except (ValueError, KeyError, TypeError):
        return {}
    return error if isinstance(error, dict) else {}
