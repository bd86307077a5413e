"""Request and response models of `/v1/moderations`.

Source: `CreateModerationRequest`, `CreateModerationResponse` of OpenAI's specification.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated, Literal

from pydantic import Field, StringConstraints

from gateway.errors import UnsupportedParameter
from gateway.openai.base import ApiModel, RequestBody

MAX_INPUTS = 2048


class TextInput(ApiModel):
    """A text of a multi-modal input."""

    type: Literal["text"]
    text: str


class ImageInputUrl(ApiModel):
    """Address of an image."""

    url: str


class ImageInput(ApiModel):
    """An image of a multi-modal input, which no moderation model reads here: it is answered by 400."""

    type: Literal["image_url"]
    image_url: ImageInputUrl


Part = Annotated[TextInput | ImageInput, Field(discriminator="type")]


class ModerationRequest(RequestBody):
    """Body of `POST /v1/moderations`."""

    input: (
        str
        | Annotated[list[str], Field(min_length=1, max_length=MAX_INPUTS)]
        | Annotated[list[Part], Field(min_length=1, max_length=MAX_INPUTS)]
    )
    """Text, a list of up to 2,048 texts, or a list of text parts that get one result. Image parts are refused."""
    model: Annotated[str, StringConstraints(min_length=1, max_length=256)] | None = None
    """Name of a classifier, `moderation-rules`, or a name of OpenAI's, which an alias or the rules stand for."""

    @property
    def groups(self) -> list[Sequence[str]]:
        """Texts that get one result each.

        Raises:
            UnsupportedParameter: a part is an image; `param` names it.
        """
        if isinstance(self.input, str):
            return [[self.input]]
        texts = [each for each in self.input if isinstance(each, str)]
        if texts:
            return [[text] for text in texts]
        return [[_text(index, part) for index, part in enumerate(self.input) if not isinstance(part, str)]]


def _text(index: int, part: TextInput | ImageInput) -> str:
    if isinstance(part, ImageInput):
        param = f"input[{index}]"
        raise UnsupportedParameter(f"Invalid '{param}': the moderation models here read no images.", param=param)
    return part.text


class ModerationResult(ApiModel):
    """The result of one input: OpenAI's categories and those of the operator's file, with scores from 0 to 1."""

    flagged: bool
    """Whether any category is flagged."""
    categories: dict[str, bool]
    category_scores: dict[str, float]
    category_applied_input_types: dict[str, list[Literal["text"]]]


class ModerationList(ApiModel):
    """The response: one result per input, in order of the inputs."""

    id: str
    model: str
    results: list[ModerationResult]
