"""Stores chat completions with `store` before their clients get the end of the answer, by one write each.

A client that has the whole answer finds it stored. While the store is away the answer does not wait for longer than one
attempt: it goes out, and the write is repeated until the gateway ends.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import structlog

from auth_billing.errors import RecordRefused, StoreUnavailable
from gateway.answers.event_frames import compact
from gateway.jobs.retry_queue import RetryQueue
from gateway.openai.chat_completion_answers import ChatCompletion
from gateway.openai.chat_completions import ChatCompletionRequest
from stored_objects.errors import StorageQuotaExceeded
from stored_objects.project_documents.project_documents import NewDocument, ProjectDocuments
from stored_objects.project_documents.records import ProjectDocument, ProjectOwner

MAX_WAITING_BYTES = 64 * 2**20
"""Most bytes of the completions that wait for the store; further ones are not stored."""
FLUSH_TIMEOUT = 5.0
"""Seconds at shutdown to store the completions that wait."""

_log = structlog.get_logger(__name__)


@dataclass
class _Write:
    """The documents of one completion to be stored: its messages, and last the completion."""

    owner: ProjectOwner
    documents: list[ProjectDocument]
    is_counted: bool = False
    """Whether the project's quota counts the documents."""

    @property
    def id(self) -> str:
        """Id of the completion."""
        return self.documents[-1].id

    @property
    def size(self) -> int:
        """Bytes of the documents."""
        return sum(each.size for each in self.documents)


class CompletionStorage:
    """Stores the chat completions of one gateway. `run` must run while requests are served."""

    def __init__(self, documents: ProjectDocuments) -> None:
        self._documents = documents
        self._waiting = RetryQueue(self._repeat)
        self._waiting_bytes = 0

    async def put(self, owner: ProjectOwner, request: ChatCompletionRequest, completion: ChatCompletion) -> None:
        """Store a completion of `owner` with the messages and metadata of its request; later if the store is away.

        It is not stored if the project or its organisation stores too much.
        """
        messages = [_message(each.model_dump(mode="json", exclude_none=True)) for each in request.messages]
        items = [
            NewDocument(f"{completion.id}-{number}", compact(each).encode(), parent=completion.id)
            for number, each in enumerate(messages)
        ]
        answer = NewDocument(
            completion.id,
            completion.model_dump_json().encode(),
            metadata=request.metadata or {},
            model=completion.model,
        )
        documents = self._documents.created(owner, *items, answer)  # a completion is found once it has its messages
        write = _Write(owner, documents)
        if await self._is_done(write):
            return
        if self._waiting_bytes + write.size > MAX_WAITING_BYTES:
            _log.error("chat completion not stored: too many wait for the store", completion=write.id)
        else:
            self._waiting_bytes += write.size
            self._waiting.add([write])

    async def run(self) -> None:
        """Repeat failed writes in the background until cancelled."""
        await self._waiting.run()

    async def flush(self) -> None:
        """Wait at shutdown, for a bounded time, until the completions that wait are stored."""
        if not await self._waiting.wait_until_empty(FLUSH_TIMEOUT):
            _log.error("chat completions left at shutdown", number=len(self._waiting))

    async def _repeat(self, writes: Sequence[_Write]) -> Sequence[_Write]:
        failed = [each for each in writes if not await self._is_done(each)]
        self._waiting_bytes -= sum(each.size for each in writes) - sum(each.size for each in failed)
        return failed

    async def _is_done(self, write: _Write) -> bool:
        """Store a completion; return false if it is to be tried again."""
        try:
            if not write.is_counted:
                await self._documents.quota.reserve(write.owner, write.size)
                write.is_counted = True
            await self._documents.store.insert(write.documents)
        except StoreUnavailable as error:
            _log.warning("chat completion not stored yet", completion=write.id, reason=str(error))
            return False
        except (RecordRefused, StorageQuotaExceeded) as error:
            _log.error("chat completion not stored", completion=write.id, reason=str(error))
        return True


def _message(sent: dict[str, Any]) -> dict[str, Any]:
    """Return a message of a request in the form in which it is listed: parts apart from text."""
    content = sent.pop("content", None)
    text = content if isinstance(content, str) else None
    return {**sent, "content": text, "content_parts": content if isinstance(content, list) else None}
