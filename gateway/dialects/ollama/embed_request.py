"""Request models of Ollama's `/api/embed` and `/api/embeddings`, and their translation to embedding requests.

Source: `EmbedRequest` and `EmbeddingRequest` of Ollama's API.
"""

from __future__ import annotations

from functools import cached_property
from typing import Annotated, Any, Self

from pydantic import Field

from gateway.dialects.ollama.options import KeepAlive, ModelName
from gateway.openai.base import Ignored, RequestBody
from gateway.openai.embeddings import MAX_INPUTS, EmbeddingRequest
from gateway.openai.sampling import INT32_MAX


class OllamaEmbedRequest(RequestBody):
    """Body of `POST /api/embed`."""

    model: ModelName
    """Name of the model, as `/api/tags` lists it."""
    input: str | Annotated[list[str], Field(min_length=1, max_length=MAX_INPUTS)]
    """Text, or up to 2,048 texts, none of them empty."""
    dimensions: Annotated[int, Field(ge=1, le=INT32_MAX)] | None = None
    """Number of leading components of each vector to keep, renormalised to length one; default all."""
    truncate: Ignored[bool | None] = None
    """An input that is too long is an error."""
    options: Ignored[dict[str, Any] | None] = None
    """Embeddings have no options."""
    keep_alive: KeepAlive = None
    """Models stay loaded."""

    @classmethod
    def parse(cls, value: Any) -> Self:
        """Validate the decoded JSON body of a request, and translate it. Raises as `RequestBody.parse` does."""
        request = super().parse(value)
        _ = request.embedding
        return request

    @cached_property
    def embedding(self) -> EmbeddingRequest:
        """The embedding request that this one is translated to."""
        return EmbeddingRequest.parse({"model": self.model, "input": self.input, "dimensions": self.dimensions})


class OllamaEmbeddingsRequest(RequestBody):
    """Body of `POST /api/embeddings`, the older form of `/api/embed`."""

    model: ModelName
    """Name of the model, as `/api/tags` lists it."""
    prompt: Annotated[str, Field(min_length=1)]
    """The text."""
    options: Ignored[dict[str, Any] | None] = None
    """Embeddings have no options."""
    keep_alive: KeepAlive = None
    """Models stay loaded."""

    @property
    def embedding(self) -> EmbeddingRequest:
        """The embedding request that this one is translated to."""
        return EmbeddingRequest(model=self.model, input=[self.prompt])
