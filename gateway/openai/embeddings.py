"""Request and response models of `/v1/embeddings`.

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
    """Name of the model, as `/v1/models` lists it (`task`: `embed`)."""
    input: Annotated[Prompts, PlainValidator(prompts_up_to(MAX_INPUTS)), WithJsonSchema(prompts_schema(MAX_INPUTS))]
    """Text, token ids, or a list of either: up to 2,048 inputs, none of them empty. Token ids are used unchanged."""
    encoding_format: Literal["float", "base64"] | None = None
    """`float` (default), or `base64` of float32 in little-endian order."""
    dimensions: Annotated[int, Field(ge=1, le=INT32_MAX)] | None = None
    """Number of leading components of each vector to keep, renormalised to length one; default all."""
    user: Ignored[Annotated[str, StringConstraints(max_length=512)] | None] = None
    """Callers are identified by their API key."""


class Embedding(ApiModel):
    """The vector of one input."""

    object: Literal["embedding"] = "embedding"
    index: int
    embedding: list[float] | str


class EmbeddingUsage(ApiModel):
    """Number of tokens of all inputs, which is also the total."""

    prompt_tokens: int
    total_tokens: int


class EmbeddingList(ApiModel):
    """The response: one vector per input, in order of the inputs."""

    object: Literal["list"] = "list"
    data: list[Embedding]
    model: str
    usage: EmbeddingUsage
