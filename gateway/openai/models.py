"""The answer of `/v1/models`."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field

from gateway.openai.base import ApiModel
from router.messages import Task


class Model(ApiModel):
    """A model that can be asked, by one of its names. With vLLM's extras.

    Attributes:
        root: the model's own name: what an answer says, and another than `id` for an alias.
        max_model_len: the context length in tokens.
        task: what it is for.
    """

    id: str
    object: Literal["model"] = "model"
    created: int
    owned_by: str = "headrace"
    root: str
    max_model_len: int
    task: Annotated[Task, Field(strict=False)]


class ModelList(ApiModel):
    """All models that the caller may use."""

    object: Literal["list"] = "list"
    data: list[Model]
