"""Request and response models of presets, and of the language models to choose from in the chat."""

from __future__ import annotations

from typing import Annotated

from fastapi import Depends
from pydantic import Field, StringConstraints

from chat_ui.http.request_bodies import Body, body_of
from chat_ui.http.schemas.base import Schema
from chat_ui.http.schemas.conversations import ModelSettings, SettingsBody

PresetName = Annotated[str, StringConstraints(min_length=1, max_length=100)]


class Preset(Schema):
    """A named set of model settings."""

    id: str
    name: str
    settings: ModelSettings


class PresetList(Schema):
    """A person's presets, sorted by name."""

    presets: list[Preset]


class NewPresetBody(Body):
    """A new preset."""

    name: PresetName
    settings: SettingsBody


class PresetBody(Body):
    """Changes of a preset; missing fields stay unchanged."""

    name: PresetName | None = None
    settings: SettingsBody | None = None


class TokenPrice(Schema):
    """Prices in nano-USD per token."""

    input_nano: int = Field(validation_alias="input")
    cached_input_nano: int = Field(validation_alias="cached_input")
    output_nano: int = Field(validation_alias="output")


class ChatModel(Schema):
    """A language model that the caller may use."""

    id: str
    context: int
    """Context length in tokens, of a conversation and its answer together."""
    price: TokenPrice | None
    """`null`: no price is set, so the model can't be used."""
    ready: bool
    """Whether a live worker serves the model."""
    tools: list[str]
    """Names of an assistant's own tools, which settings can switch off; empty for other models."""
    reads_images: bool
    """Whether questions may have images."""
    searches: bool
    """Whether the model searches for answers (`test_time_compute` of the settings)."""


class Verifier(Schema):
    """A model that can score the paths of a search."""

    id: str
    price: TokenPrice | None
    """`null`: no price is set, so the model can't be used."""
    ready: bool
    """Whether a live worker serves the model."""
    own_names: list[str]
    """Names of a chat model, which grades the paths of other models only; empty for models that score."""


class SearchOffer(Schema):
    """What searches for answers can use."""

    verifiers: list[Verifier]
    """Models that score, then chat models, both sorted by name."""
    max_tokens: int
    """Most tokens that all paths of a search together generate, and most that the verifier reads."""
    answer_tokens: int
    """Most tokens of an answer whose settings set none."""


class ModelList(Schema):
    """The language models, sorted by name, and what searches for their answers can use."""

    models: list[ChatModel]
    search: SearchOffer


# Dependencies of routes: each reads and validates a request body.
NewPresetJson = Annotated[NewPresetBody, Depends(body_of(NewPresetBody))]
PresetJson = Annotated[PresetBody, Depends(body_of(PresetBody))]
