"""Defines tools with the names of the labels, among which routers choose in the benchmark; none can be run."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from assistant.tools.tool import ToolContext, ToolOff

_LIMIT = {"type": "string", "maxLength": 200}


@dataclass(frozen=True)
class LabelTool:
    """A tool that routers can choose; running it raises `ToolOff`."""

    name: str
    description: str
    parameters: dict[str, Any]
    time_limit: float = 1.0
    cache_seconds: float = 0.0

    def from_question(self, question: str, language: str) -> dict[str, Any] | None:
        """Return `None`, because the benchmark scores the choice of a tool, not its arguments."""
        return None

    async def run(self, arguments: dict[str, Any], context: ToolContext) -> dict[str, Any]:
        """Refuse to run, because the benchmark scores the choice of a tool only.

        Raises:
            ToolOff: always.
        """
        raise ToolOff()

    def phrased(self, result: dict[str, Any]) -> str | None:
        """Return no text, because the tool has no results."""
        return ""

    def for_model(self, result: dict[str, Any]) -> str:
        """Return no text, because the tool has no results."""
        return ""


def _schema(required: str, **properties: Any) -> dict[str, Any]:
    named = {required: _LIMIT, **properties}
    return {"type": "object", "properties": named, "required": [required], "additionalProperties": False}


LABEL_TOOLS = (
    LabelTool("image", "Draws a picture from a description.", _schema("prompt")),
    LabelTool("weather", "Current weather and forecast for a place.", _schema("place")),
    LabelTool("wikipedia", "Facts from the encyclopaedia about a person, place, thing or event.", _schema("topic")),
    LabelTool(
        "math",
        "Calculates, simplifies, solves, differentiates, integrates and plots.",
        _schema(
            "expression", operation={"enum": ["evaluate", "simplify", "solve", "differentiate", "integrate", "plot"]}
        ),
    ),
    LabelTool("documents", "Searches the files that the person uploaded.", _schema("query")),
)
