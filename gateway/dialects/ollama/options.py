"""Models of the request fields that `/api/chat` and `/api/generate` of Ollama's API share, and their translation."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any, ClassVar, Literal

from pydantic import Field, StringConstraints

from gateway.openai.base import ApiModel, Ignored, Refused, RequestBody
from gateway.openai.sampling import INT32_MAX, INT64_MAX, Penalty, StopString
from gateway.openai.structured_output import Schema

KeepAlive = Ignored[float | str | None]
ModelName = Annotated[str, StringConstraints(min_length=1, max_length=256)]


class OllamaOptions(ApiModel):
    """Value of `options`: sampling and stop conditions. Options of the runtime, such as `num_ctx`, are ignored."""

    num_predict: Annotated[int, Field(ge=-2, le=INT32_MAX)] | None = None
    temperature: Annotated[float, Field(ge=0, le=2)] | None = None
    top_p: Annotated[float, Field(ge=0, le=1)] | None = None
    top_k: Annotated[int, Field(ge=-1, le=INT32_MAX)] | None = None
    min_p: Annotated[float, Field(ge=0, le=1)] | None = None
    seed: Annotated[int, Field(ge=-INT64_MAX - 1, le=INT64_MAX)] | None = None
    repeat_penalty: Annotated[float, Field(gt=0, le=2)] | None = None
    presence_penalty: Penalty | None = None
    frequency_penalty: Penalty | None = None
    stop: StopString | Annotated[list[StopString], Field(max_length=4)] | None = None

    def as_fields(self) -> dict[str, Any]:
        """Return the options as fields of a chat completion or completion."""
        fields = self.model_dump(exclude={"num_predict", "repeat_penalty"})
        fields["repetition_penalty"] = self.repeat_penalty
        fields["max_tokens"] = self.num_predict if (self.num_predict or 0) > 0 else None
        return fields


class OllamaGeneration(RequestBody):
    """Base of the request bodies that generate text."""

    not_offered: ClassVar[Mapping[str, Refused]] = {
        "logprobs": Refused("use `/v1/chat/completions`", (False,)),
        "top_logprobs": Refused("use `/v1/chat/completions`", (0,)),
    }

    model: ModelName
    """Name of the model, as `/api/tags` lists it."""
    stream: bool | None = None
    """Send lines of JSON as tokens are generated; default true."""
    format: Literal["", "json"] | Schema | None = None
    """`json`, or a JSON schema that the answer matches."""
    options: OllamaOptions | None = None
    """`num_predict`, `temperature`, `top_p`, `top_k`, `min_p`, `seed`, `repeat_penalty`, `presence_penalty`,
    `frequency_penalty` and `stop` (at most 4) are honoured; others, such as `num_ctx`, are ignored. Defaults are those
    of chat completions."""
    think: bool | Literal["low", "medium", "high", "max"] | None = None
    """`false` asks the model not to think; a level is `reasoning_effort` of a chat completion."""
    keep_alive: KeepAlive = None
    """Models stay loaded."""

    @property
    def streams(self) -> bool:
        """Whether the answer is streamed, which is Ollama's default."""
        return self.stream is not False

    def common_fields(self) -> dict[str, Any]:
        """Return the fields that a chat completion and a completion have in common."""
        fields = {} if self.options is None else self.options.as_fields()
        if self.format == "json":
            fields["response_format"] = {"type": "json_object"}
        elif self.format:
            schema = {"name": "answer", "schema": self.format}
            fields["response_format"] = {"type": "json_schema", "json_schema": schema}
        return fields | {"model": self.model, "stream": self.streams}

    @property
    def reasoning_effort(self) -> str | None:
        """Value of `reasoning_effort` of a chat completion."""
        if isinstance(self.think, str):
            return self.think
        return "none" if self.think is False else None
