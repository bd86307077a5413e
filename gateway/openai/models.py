"""Response models of `/v1/models` and `/v1/models/{name}`."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field

from gateway.openai.base import ApiModel, OmitIfNone
from router.messages import Task


class Model(ApiModel):
    """A served model under one of its names, with vLLM's extensions.

    Attributes:
        root: Name of the model itself, which responses carry; differs from `id` for an alias.
        max_model_len: Context length in tokens; of an image model the longest prompt.
        image_sizes: Sizes that an image model draws, the default first; left out for other models.
        input_modalities: What prompts consist of: `text`, and `image` where the model reads images.
        test_time_compute: `true` where the model searches for answers; left out for other models.
        tokenize: `true` where `/v1/tokenize` has the model's tokenizer; left out for other models.
        labels: Labels that a text classifier scores; left out for other models.
        task: Whether the model generates text, embeds it, scores it, or draws images.
    """

    id: str
    object: Literal["model"] = "model"
    created: int
    owned_by: str = "headrace"
    root: str
    max_model_len: int
    task: Annotated[Task, Field(strict=False)]
    image_sizes: OmitIfNone[list[str]] = None
    labels: OmitIfNone[list[str]] = None
    input_modalities: list[Literal["text", "image"]]
    test_time_compute: OmitIfNone[Literal[True]] = None
    tokenize: OmitIfNone[Literal[True]] = None


class ModelList(ApiModel):
    """List of the models that the caller may use."""

    object: Literal["list"] = "list"
    data: list[Model]


class ModelDeleted(ApiModel):
    """Confirmation that a model of a project was deleted."""

    id: str
    object: Literal["model"] = "model"
    deleted: Literal[True] = True
