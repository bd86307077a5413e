"""Presets, and models that can be chosen."""

from __future__ import annotations

from typing import Annotated

from pydantic import StringConstraints

from chat_ui.bodies import Body
from chat_ui.shapes.base import Shape
from chat_ui.shapes.conversations import ModelSettings, SettingsBody

PresetName = Annotated[str, StringConstraints(min_length=1, max_length=100)]


class Preset(Shape):
    """Settings with a name."""

    id: str
    name: str
    settings: ModelSettings


class PresetList(Shape):
    """A person's presets, by name."""

    presets: list[Preset]


class NewPresetBody(Body):
    """A new preset."""

    name: PresetName
    settings: SettingsBody


class PresetBody(Body):
    """What is to change; what is left out stays."""

    name: PresetName | None = None
    settings: SettingsBody | None = None


class TokenPrice(Shape):
    """Nano-USD per token."""

    input_nano: int
    cached_input_nano: int
    output_nano: int


class ChatModel(Shape):
    """A model that can be asked."""

    id: str
    context: int
    """Tokens that a conversation and its answer may have together."""
    price: TokenPrice | None
    """`null`: nobody has said what it costs, so it can't be used."""
    ready: bool
    """Whether a worker serves it now."""


class ModelList(Shape):
    """The models, by name."""

    models: list[ChatModel]
