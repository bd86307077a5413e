"""Gateways that are started again on the documents of earlier ones, and the stock client."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import openai

from stored_objects.project_documents.project_documents import StoredDocuments
from tests.gateway.conftest import KEY, gateway_beside, stage


def client_of(http: Any, key: str = KEY) -> openai.AsyncOpenAI:
    return openai.AsyncOpenAI(api_key=key, base_url="http://gateway/v1", http_client=http, max_retries=0)


@asynccontextmanager
async def restarted(documents: StoredDocuments) -> AsyncIterator[openai.AsyncOpenAI]:
    """The stock client of the other one of two gateways that have been started again."""
    async with stage(documents=documents) as first, gateway_beside(first) as (_, http):
        yield client_of(http)
