"""Request and response models of `/v1/images/generations`.

Source: `CreateImageRequest`, `ImagesResponse` of OpenAI's specification.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, ClassVar, Literal

from pydantic import Field, StringConstraints

from gateway.openai.base import ApiModel, Ignored, OmitIfNone, Refused, RequestBody
from gateway.openai.sampling import INT64_MAX

MAX_IMAGES = 10
MAX_PROMPT_LENGTH = 32_000
AUTO_SIZE = "auto"

_STEPS = "the operator sets it for each model"


class ImageRequest(RequestBody):
    """Body of `POST /v1/images/generations`."""

    not_offered: ClassVar[Mapping[str, Refused]] = {
        "quality": Refused("each model has one quality, which its operator sets", ("auto", "standard")),
        "style": Refused("the prompt says the style"),
        "background": Refused("images are opaque", ("auto", "opaque")),
        "moderation": Refused("each model has its own safety checker or none", ("auto",)),
        "output_format": Refused("images are PNG files", ("png",)),
        "output_compression": Refused("PNG files are lossless", (100,)),
        "stream": Refused("images are returned when all of them are drawn", (False,)),
        "partial_images": Refused("images are returned when all of them are drawn", (0,)),
        "negative_prompt": Refused("only the prompt is read"),
        "num_inference_steps": Refused(_STEPS),
        "guidance_scale": Refused(_STEPS),
    }

    model: Annotated[str, StringConstraints(min_length=1, max_length=256)]
    """Name of the model, as `/v1/models` lists it (`task`: `image`); required here."""
    prompt: Annotated[str, StringConstraints(min_length=1, max_length=MAX_PROMPT_LENGTH)]
    """Text that describes the images; a prompt that the model would cut off is an error."""
    n: Annotated[int, Field(ge=1, le=MAX_IMAGES)] | None = None
    """Number of images, 1 to 10, each from noise of its own; default 1."""
    size: Annotated[str, StringConstraints(max_length=32)] | None = None
    """One of the model's `image_sizes` in `/v1/models`; `auto` (default) is the first of them."""
    response_format: Literal["url", "b64_json"] | None = None
    """`b64_json` (default): the PNG file in base64. `url`: an address that needs no API key, valid for an hour."""
    seed: Annotated[int, Field(ge=-INT64_MAX - 1, le=INT64_MAX)] | None = None
    """Equal seeds draw equal images with the same model, prompt and size. Not in OpenAI's specification."""
    user: Ignored[Annotated[str, StringConstraints(max_length=512)] | None] = None
    """Callers are identified by their API key."""


class Image(ApiModel):
    """One image."""

    b64_json: OmitIfNone[str] = None
    url: OmitIfNone[str] = None
    revised_prompt: OmitIfNone[str] = None


class ImageList(ApiModel):
    """The response: all images of the request, in order of their seeds.

    Attributes:
        size: Size of the images, also if the request left it to the model.
    """

    created: int
    data: list[Image]
    background: Literal["opaque"] = "opaque"
    output_format: Literal["png"] = "png"
    size: str
