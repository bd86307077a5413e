"""What each field of each request does here, as the tables of `docs/openai-compatibility.md`.

    python -m gateway.openai.compatibility > docs/openai-compatibility.md

writes the document; a test compares it with the code, and the code with the field names of OpenAI's specification.
To put a field into a table, declare it in the request's model: its docstring is what it does. `Ignored[...]` as its
type says that it has no effect, an entry of `not_offered` that asking for it is answered by 400. A new endpoint is
added to `ENDPOINTS`.

Knows the request models only.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import NamedTuple

from gateway.openai.base import IGNORED, RequestBody
from gateway.openai.chat_completions import ChatCompletionRequest
from gateway.openai.completions import CompletionRequest
from gateway.openai.embeddings import EmbeddingRequest

ENDPOINTS: Mapping[str, type[RequestBody]] = {
    "/v1/chat/completions": ChatCompletionRequest,
    "/v1/completions": CompletionRequest,
    "/v1/embeddings": EmbeddingRequest,
}

HEAD = """# Compatibility with OpenAI's API

Every field that OpenAI's specification or vLLM (as an extra) has for a request, and what it does here. *Honoured*: as
they have it. *Ignored*: checked, and without effect on purpose. *Refused*: 400 that names the field, unless its value
asks for nothing. Null is the same as leaving a field out. A field that is not in these tables is ignored.

Written by `python -m gateway.openai.compatibility`.
"""


class Row(NamedTuple):
    """One field."""

    field: str
    behaviour: str
    meaning: str


def rows(request: type[RequestBody]) -> list[Row]:
    """Every field that a request knows, in order of name."""
    return sorted([*_declared(request), *_refused(request)])


def page() -> str:
    """The document."""
    lines = [HEAD]
    for path, request in ENDPOINTS.items():
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
        yield Row(name, "refused", f"{refused.why[0].upper()}{refused.why[1:]}.")


if __name__ == "__main__":
    print(page(), end="")
