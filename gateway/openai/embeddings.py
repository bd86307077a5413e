"""The request and the answer of `/v1/embeddings`.

Source: `CreateEmbeddingRequest`, `CreateEmbeddingResponse` of OpenAI's specification.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, ClassVar, Literal

from pydantic import Field, PlainValidator, StringConstraints, WithJsonSchema

from gateway.openai.base import ApiModel, Ignored, Refused, RequestBody
from gateway.openai.prompts import Prompts, prompts_schema, prompts_up_to
from gateway.openai.sampling import INT32_MAX

MAX_INPUTS = 2048


class EmbeddingRequest(RequestBody):
    """Body of `POST /v1/embeddings`."""

    not_offered: ClassVar[Mapping[str, Refused]] = {
        "truncate_prompt_tokens": Refused("an input that is too long is an error"),
        "embed_dtype": Refused("numbers are float32", ("float32",)),
        "endianness": Refused("numbers are little-endian", ("native", "little")),
        "normalize": Refused("vectors have length one", (True,)),
    }

    model: Annotated[str, StringConstraints(min_length=1, max_length=256)]
    """The model to ask, as `/v1/models` names it (`task`: `embed`)."""
    input: Annotated[Prompts, PlainValidator(prompts_up_to(MAX_INPUTS)), WithJsonSchema(prompts_schema(MAX_INPUTS))]
    """Text, token ids, or a list of either: up to 2,048 inputs, none of them empty; token ids are taken as they are."""
    encoding_format: Literal["float", "base64"] | None = None
    """`float` (default), or `base64` of float32 in little-endian order."""
    dimensions: Annotated[int, Field(ge=1, le=INT32_MAX)] | None = None
    """Keep so many leading numbers of each vector and bring it back to length one; by default all."""
    user: Ignored[Annotated[str, StringConstraints(max_length=512)] | None] = None
    """An API key says who asks."""


class Embedding(ApiModel):
    """The vector of one input."""

    object: Literal["embedding"] = "embedding"
    index: int
    embedding: list[float] | str


class EmbeddingUsage(ApiModel):
    """Tokens of all inputs; nothing else is used."""

    prompt_tokens: int
    total_tokens: int


class EmbeddingList(ApiModel):
    """The answer: a vector an input, in their order."""

    object: Literal["list"] = "list"
    data: list[Embedding]
    model: str
    usage: EmbeddingUsage
