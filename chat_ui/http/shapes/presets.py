"""Models of presets, and of the language models to choose from."""

from __future__ import annotations

from typing import Annotated

from pydantic import StringConstraints

from chat_ui.http.bodies import Body
from chat_ui.http.shapes.base import Shape
from chat_ui.http.shapes.conversations import ModelSettings, SettingsBody

PresetName = Annotated[str, StringConstraints(min_length=1, max_length=100)]


class Preset(Shape):
    """A named set of model settings."""

    id: str
    name: str
    settings: ModelSettings


class PresetList(Shape):
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


class TokenPrice(Shape):
    """Prices in nano-USD per token."""

    input_nano: int
    cached_input_nano: int
    output_nano: int


class ChatModel(Shape):
    """A language model that the caller may use."""

    id: str
    context: int
    """Context length in tokens, of a conversation and its answer together."""
    price: TokenPrice | None
    """`null`: no price is set, so the model can't be used."""
    ready: bool
    """Whether a live worker serves the model."""


class ModelList(Shape):
    """The language models, sorted by name."""

    models: list[ChatModel]
