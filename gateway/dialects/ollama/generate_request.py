"""Request model of Ollama's `/api/generate`, and its translation to a chat completion or a completion.

Source: `GenerateRequest` of Ollama's API.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import cached_property
from typing import Annotated, Any, ClassVar, Self

from pydantic import StringConstraints

from gateway.dialects.ollama.chat_request import Images, user_content
from gateway.dialects.ollama.options import OllamaGeneration
from gateway.errors import InvalidRequest
from gateway.openai.base import Refused
from gateway.openai.chat_completions import ChatCompletionRequest
from gateway.openai.completions import MAX_SUFFIX, CompletionRequest


class RawCompletionRequest(CompletionRequest):
    """A completion without the default `max_tokens` of OpenAI's specification: the operator's limit applies."""

    @property
    def token_limit(self) -> int | None:
        """Maximum number of tokens to generate; `None`: the operator's limit."""
        return self.max_tokens


class OllamaGenerateRequest(OllamaGeneration):
    """Body of `POST /api/generate`."""

    not_offered: ClassVar[Mapping[str, Refused]] = {
        **OllamaGeneration.not_offered,
        "template": Refused("clients bring no templates", ("",)),
        "context": Refused("send the conversation to `/api/chat`", ([],)),
        "width": Refused("use `/v1/images/generations`"),
        "height": Refused("use `/v1/images/generations`"),
        "steps": Refused("use `/v1/images/generations`"),
    }

    prompt: str | None = None
    """The question, as a user's message. Without it the answer is empty: the model is loaded anyway."""
    system: str | None = None
    """Instructions before the question."""
    images: Images | None = None
    """Images of the question in base64, for models that read images."""
    suffix: Annotated[str, StringConstraints(max_length=MAX_SUFFIX)] | None = None
    """Text after the insertion (fill-in-the-middle): the prompt is continued without the model's template."""
    raw: bool | None = None
    """Continue the prompt without the model's template; the key needs the scope `completions`."""

    @classmethod
    def parse(cls, value: Any) -> Self:
        """Validate the decoded JSON body of a request, and translate it. Raises as `RequestBody.parse` does."""
        request = super().parse(value)
        _ = request.translated  # translated here, where a long request is parsed in a thread
        return request

    @cached_property
    def translated(self) -> ChatCompletionRequest | RawCompletionRequest | None:
        """The request that this one is translated to; `None` without a prompt."""
        if not self.prompt:
            return None
        if self.raw or self.suffix:
            for name in ("system", "images"):
                if getattr(self, name):
                    raise InvalidRequest(f"Invalid '{name}': a prompt without the template has none.", param=name)
            return RawCompletionRequest.parse(
                self.common_fields() | {"prompt": self.prompt, "suffix": self.suffix or None}
            )
        messages: list[dict[str, Any]] = [{"role": "system", "content": self.system}] if self.system else []
        messages.append({"role": "user", "content": user_content(self.prompt, self.images)})
        fields = self.common_fields() | {"messages": messages, "reasoning_effort": self.reasoning_effort}
        return ChatCompletionRequest.parse(fields)
