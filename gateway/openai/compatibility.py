"""Writes `docs/openai-compatibility.md`: tables of how each request field of the API behaves here.

    python -m gateway.openai.compatibility > docs/openai-compatibility.md

writes the document. A test compares it with the code, and the code with the field names of OpenAI's specification.
To add a field to a table, declare it in the request's model; its docstring is the description. The type `Ignored[...]`
marks a field without effect, an entry of `not_offered` one that is answered by 400. Add a new endpoint to `ENDPOINTS`.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import NamedTuple

from gateway.openai.base import IGNORED, RequestBody
from gateway.openai.batches import BatchCreate
from gateway.openai.chat_completions import ChatCompletionRequest
from gateway.openai.completions import CompletionRequest
from gateway.openai.embeddings import EmbeddingRequest
from gateway.openai.files import FileCreate, UploadComplete, UploadCreate
from gateway.openai.images import ImageRequest
from gateway.openai.moderations import ModerationRequest
from gateway.openai.responses.compaction import CompactionRequest
from gateway.openai.responses.conversations import ConversationCreate, ConversationItemsCreate, ConversationUpdate
from gateway.openai.responses.request import InputTokensRequest, ResponseRequest
from gateway.openai.scores import RerankRequest, ScoreRequest
from gateway.openai.stored_completions import StoredChatCompletionUpdate
from gateway.openai.tokenisation import DetokenizeRequest, TokenizeRequest
from gateway.openai.vector_store_search import VectorStoreSearch
from gateway.openai.vector_stores import (
    FileBatchCreate,
    VectorStoreCreate,
    VectorStoreFileCreate,
    VectorStoreFileUpdate,
    VectorStoreUpdate,
)

ENDPOINTS: Mapping[str, type[RequestBody]] = {
    "/v1/chat/completions": ChatCompletionRequest,
    "/v1/chat/completions/{completion_id}": StoredChatCompletionUpdate,
    "/v1/responses": ResponseRequest,
    "/v1/responses/input_tokens": InputTokensRequest,
    "/v1/responses/compact": CompactionRequest,
    "/v1/conversations": ConversationCreate,
    "/v1/conversations/{conversation_id}": ConversationUpdate,
    "/v1/conversations/{conversation_id}/items": ConversationItemsCreate,
    "/v1/completions": CompletionRequest,
    "/v1/embeddings": EmbeddingRequest,
    "/v1/images/generations": ImageRequest,
    "/v1/score": ScoreRequest,
    "/v1/rerank": RerankRequest,
    "/v1/moderations": ModerationRequest,
    "/v1/tokenize": TokenizeRequest,
    "/v1/detokenize": DetokenizeRequest,
    "/v1/files": FileCreate,
    "/v1/uploads": UploadCreate,
    "/v1/uploads/{upload_id}/complete": UploadComplete,
    "/v1/batches": BatchCreate,
    "/v1/vector_stores": VectorStoreCreate,
    "/v1/vector_stores/{vector_store_id}": VectorStoreUpdate,
    "/v1/vector_stores/{vector_store_id}/search": VectorStoreSearch,
    "/v1/vector_stores/{vector_store_id}/files": VectorStoreFileCreate,
    "/v1/vector_stores/{vector_store_id}/files/{file_id}": VectorStoreFileUpdate,
    "/v1/vector_stores/{vector_store_id}/file_batches": FileBatchCreate,
}

PREAMBLE = """# Compatibility with OpenAI's API

Every request field of OpenAI's specification and of vLLM's extensions, and how it behaves here. *Honoured*: as
specified. *Ignored*: validated, and without effect on purpose. *Refused*: answered by 400 that names the field, unless
its value has no effect. Null is the same as leaving a field out. A field that is not in these tables is ignored.
Clients of Anthropic's and Ollama's APIs are served too ([other-apis.md](other-apis.md)).

**Steps** are an extension of answers: what an assistant did before it answered, or a search among several paths
([test-time-compute.md](test-time-compute.md)). Only answers with steps have these fields. A stream sends each step in a
chunk of its own, before the text, when it starts and when it ends: `choices[0].delta.steps` is a list of one
`{"number", "kind", "name", "state", "data"}`, with the state `running`, `done` or `failed`. A whole answer has the
ended ones in `choices[0].message.steps`. `usage.parts` lists what they used, `{"model", "prompt_tokens",
"completion_tokens"}` and, if any, `cached_tokens` and `units` (images by size, `call`); the other fields of `usage`
count the answer alone. Steps of earlier turns that a client sends back are ignored.

**Images** in users' and tools' messages are read by models whose `input_modalities` in `/v1/models` have `image`;
others answer 400. `image_url.url` is a data URL in base64, an image's address of this platform or the id of a file of
the project; nothing is fetched from other addresses ([prompt-images.md](prompt-images.md)).

**Files** and uploads in parts are described in [files.md](files.md); the form of `POST /v1/files` has the file in its
field `file`. Text files can be parts of users' and tools' messages (`file`, in responses `input_file`)
([files.md](files.md#files-in-prompts)).

**Vector stores** and the tool `file_search` are described in [documents.md](documents.md).

`/v1/responses` is described in [responses.md](responses.md).

Written by `python -m gateway.openai.compatibility`.
"""


class Row(NamedTuple):
    """One row of a table: a field, its behaviour here, and its description."""

    field: str
    behaviour: str
    meaning: str


def rows(request: type[RequestBody]) -> list[Row]:
    """Return the rows of a request body's compatibility table: one per declared or refused field, sorted by name."""
    return sorted([*_declared(request), *_refused(request)])


def page(preamble: str = PREAMBLE, endpoints: Mapping[str, type[RequestBody]] = ENDPOINTS) -> str:
    """Return a page's text as Markdown: its preamble and the tables of `endpoints`, by path.

    By default `docs/openai-compatibility.md`.
    """
    lines = [preamble]
    for path, request in endpoints.items():
        lines += [f"## `POST {path}`\n", "| field | here | what it does |", "|---|---|---|"]
        lines += [f"| `{row.field}` | {row.behaviour} | {row.meaning} |" for row in rows(request)]
        lines.append("")
    return "\n".join(lines)


def _declared(request: type[RequestBody]) -> Iterator[Row]:
    for name, field in request.model_fields.items():
        extra = field.json_schema_extra
        ignored = isinstance(extra, dict) and IGNORED in extra
        meaning = " ".join((field.description or "").split()).replace("|", r"\|")
        yield Row(name, "ignored" if ignored else "honoured", meaning)


def _refused(request: type[RequestBody]) -> Iterator[Row]:
    for name, refused in request.not_offered.items():
        yield Row(name, "refused", f"{refused.reason[0].upper()}{refused.reason[1:]}.")


if __name__ == "__main__":
    print(page(), end="")
