"""Models of the content blocks and turns in requests of Anthropic's Messages API.

Source: `MessageParam` and `ContentBlockParam` of Anthropic's SDK. Blocks of tools that Anthropic runs, documents and
search results are refused.
"""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import Field, StringConstraints

from gateway.openai.base import ApiModel, Ignored
from gateway.openai.messages import MAX_PARTS

CallId = Annotated[str, StringConstraints(min_length=1, max_length=256)]


class TextBlock(ApiModel):
    """A block of text."""

    type: Literal["text"]
    text: str


class Base64Source(ApiModel):
    """An image's file in base64."""

    type: Literal["base64"]
    media_type: Literal["image/jpeg", "image/png", "image/gif", "image/webp"]
    data: Annotated[str, StringConstraints(min_length=1)]

    @property
    def address(self) -> str:
        """Data URL of the image."""
        return f"data:{self.media_type};base64,{self.data}"


class UrlSource(ApiModel):
    """An image by its address: a data URL or a signed address of this platform; nothing else is fetched."""

    type: Literal["url"]
    url: Annotated[str, StringConstraints(min_length=1)]

    @property
    def address(self) -> str:
        """URL of the image."""
        return self.url


class ImageBlock(ApiModel):
    """An image, for models that read images."""

    type: Literal["image"]
    source: Annotated[Base64Source | UrlSource, Field(discriminator="type")]


class ThinkingBlock(ApiModel):
    """Reasoning of an earlier answer."""

    type: Literal["thinking"]
    thinking: str
    signature: Ignored[str | None] = None


class RedactedThinkingBlock(ApiModel):
    """Reasoning that only Anthropic's servers can read; it is left out."""

    type: Literal["redacted_thinking"]


class ToolUseBlock(ApiModel):
    """A tool call of the assistant."""

    type: Literal["tool_use"]
    id: CallId
    name: Annotated[str, StringConstraints(max_length=256)]
    input: dict[str, Any]


ResultBlock = Annotated[TextBlock | ImageBlock, Field(discriminator="type")]


class ToolResultBlock(ApiModel):
    """The result of a tool call; its images follow in the user's message."""

    type: Literal["tool_result"]
    tool_use_id: CallId
    content: str | Annotated[list[ResultBlock], Field(max_length=MAX_PARTS)] | None = None
    is_error: Ignored[bool | None] = None


UserBlock = Annotated[TextBlock | ImageBlock | ToolResultBlock, Field(discriminator="type")]
AssistantBlock = Annotated[
    TextBlock | ThinkingBlock | RedactedThinkingBlock | ToolUseBlock, Field(discriminator="type")
]


class UserTurn(ApiModel):
    """A message of the user, which also brings the results of tool calls."""

    role: Literal["user"]
    content: str | Annotated[list[UserBlock], Field(min_length=1, max_length=MAX_PARTS)]


class AssistantTurn(ApiModel):
    """A message of the assistant."""

    role: Literal["assistant"]
    content: str | Annotated[list[AssistantBlock], Field(max_length=MAX_PARTS)]


class SystemTurn(ApiModel):
    """An instruction in the course of the conversation."""

    role: Literal["system"]
    content: str | Annotated[list[TextBlock], Field(min_length=1, max_length=MAX_PARTS)]


Turn = Annotated[UserTurn | AssistantTurn | SystemTurn, Field(discriminator="role")]
