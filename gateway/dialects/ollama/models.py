"""Response models of Ollama's API. Durations are in nanoseconds.

Source: `ChatResponse`, `GenerateResponse`, `EmbedResponse`, `ListResponse` and `ShowResponse` of Ollama's API.
"""

from __future__ import annotations

from typing import Any, Literal

from pydantic import Field

from gateway.openai.base import ApiModel, OmitIfNone, RequestBody


class OllamaError(ApiModel):
    """Body of an error of Ollama's routes, and last line of a failed stream."""

    error: str


class OllamaFunctionCall(ApiModel):
    """The called function; arguments that the model did not write as a JSON object are `{"INVALID_JSON": text}`."""

    name: str
    arguments: dict[str, Any]


class OllamaToolCall(ApiModel):
    """A tool call of the answer."""

    id: str
    function: OllamaFunctionCall


class OllamaAnswerMessage(ApiModel):
    """The assistant's message, or a line's part of it."""

    role: Literal["assistant"] = "assistant"
    content: str
    thinking: OmitIfNone[str] = None
    tool_calls: OmitIfNone[list[OllamaToolCall]] = None


class OllamaAnswer(ApiModel):
    """Fields of every answer, and of every line of a stream; the last line has the reason, durations and counts."""

    model: str
    created_at: str
    done_reason: OmitIfNone[Literal["stop", "length", "load"]] = None
    total_duration: OmitIfNone[int] = None
    load_duration: OmitIfNone[int] = None
    prompt_eval_count: OmitIfNone[int] = None
    prompt_eval_duration: OmitIfNone[int] = None
    eval_count: OmitIfNone[int] = None
    eval_duration: OmitIfNone[int] = None
    done: bool


class OllamaChatAnswer(OllamaAnswer):
    """The answer of `/api/chat`, or one line of its stream."""

    message: OllamaAnswerMessage


class OllamaGenerateAnswer(OllamaAnswer):
    """The answer of `/api/generate`, or one line of its stream."""

    response: str
    thinking: OmitIfNone[str] = None


class OllamaEmbeddings(ApiModel):
    """The answer of `/api/embed`."""

    model: str
    embeddings: list[list[float]]
    total_duration: int
    load_duration: int
    prompt_eval_count: int


class OllamaEmbedding(ApiModel):
    """The answer of `/api/embeddings`."""

    embedding: list[float]


class OllamaModelDetails(ApiModel):
    """Details of a model's file, which are not known here."""

    parent_model: str = ""
    format: str = ""
    family: str = ""
    families: list[str] = Field(default_factory=list)
    parameter_size: str = ""
    quantization_level: str = ""


class OllamaModel(ApiModel):
    """A served model. Its digest is one of its name; its size is not known here."""

    name: str
    model: str
    modified_at: str
    size: int = 0
    digest: str
    details: OllamaModelDetails = OllamaModelDetails()


class OllamaModelList(ApiModel):
    """The answer of `/api/tags`."""

    models: list[OllamaModel]


class OllamaShowRequest(RequestBody):
    """Body of `POST /api/show`."""

    model: str
    """Name of the model, as `/api/tags` lists it."""


class OllamaModelInfo(ApiModel):
    """The answer of `/api/show`."""

    modified_at: str
    details: OllamaModelDetails = OllamaModelDetails()
    model_info: dict[str, str | int]
    capabilities: list[str]


class OllamaVersion(ApiModel):
    """The answer of `/api/version`."""

    version: str
