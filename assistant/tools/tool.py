"""The port of tools: what each tool states about itself, and how it is run."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar, Protocol


class ToolError(Exception):
    """Base of the failures of a tool that a person is told about. `code` is stable, `messages` are by language."""

    code: ClassVar[str] = "failed"
    defaults: ClassVar[Mapping[str, str]] = {"en": "The tool failed.", "pl": "Narzędzie zawiodło."}

    def __init__(self, messages: Mapping[str, str] | None = None) -> None:
        self.messages: Mapping[str, str] = {**self.defaults, **(messages or {})}
        super().__init__(self.messages["en"])

    def message(self, language: str) -> str:
        """Return the failure in plain words of `language`, in English if there are none."""
        return self.messages.get(language, self.messages["en"])


class NotFound(ToolError):
    """Raised if what was asked for does not exist: a place, an article, a page."""

    code = "not_found"
    defaults: ClassVar[Mapping[str, str]] = {"en": "Nothing was found.", "pl": "Nic nie znaleziono."}


class Unavailable(ToolError):
    """Raised if the service behind a tool does not answer, or not in time."""

    code = "unavailable"
    defaults: ClassVar[Mapping[str, str]] = {
        "en": "The service does not answer now.",
        "pl": "Usługa teraz nie odpowiada.",
    }


class TooLarge(ToolError):
    """Raised if a request or its result exceeds a limit."""

    code = "too_large"
    defaults: ClassVar[Mapping[str, str]] = {
        "en": "That is too large to be handled.",
        "pl": "To jest zbyt duże, by to obsłużyć.",
    }


class Refused(ToolError):
    """Raised if a rule forbids the request: an address, a service's terms, a limit of use."""

    code = "refused"
    defaults: ClassVar[Mapping[str, str]] = {"en": "That is not permitted.", "pl": "To nie jest dozwolone."}


class InvalidArguments(ToolError):
    """Raised if the arguments do not match the tool's schema, or mean nothing."""

    code = "invalid_arguments"
    defaults: ClassVar[Mapping[str, str]] = {
        "en": "The request could not be understood.",
        "pl": "Nie udało się zrozumieć polecenia.",
    }


class ToolOff(ToolError):
    """Raised if a tool is switched off, or not configured by the operator."""

    code = "off"
    defaults: ClassVar[Mapping[str, str]] = {"en": "This tool is switched off.", "pl": "To narzędzie jest wyłączone."}


@dataclass(frozen=True)
class ToolContext:
    """For whom a tool runs."""

    tenant: str
    requester: str
    language: str
    """Language of the conversation: "en", "pl", ..."""


class Tool(Protocol):
    """A tool of the assistant."""

    @property
    def name(self) -> str:
        """Name: "weather", "wikipedia", "math", "image", "web_page", "mcp.SERVER.TOOL"."""
        ...

    @property
    def description(self) -> str:
        """What the tool does, for models, in English."""
        ...

    @property
    def parameters(self) -> dict[str, Any]:
        """JSON schema of the arguments."""
        ...

    @property
    def time_limit(self) -> float:
        """Seconds after which a run is cancelled."""
        ...

    @property
    def cache_seconds(self) -> float:
        """Seconds for which a result may be reused; 0: never."""
        ...

    @property
    def answer_follows(self) -> bool:
        """Whether a model phrases an answer from the result; else the result is the answer."""
        ...

    def from_question(self, question: str, language: str) -> dict[str, Any] | None:
        """Return the arguments that a question in `language` states, found without a model; `None`: there are none."""
        ...

    async def run(self, arguments: dict[str, Any], context: ToolContext) -> dict[str, Any]:
        """Run the tool and return its typed result.

        Raises:
            ToolError: the run failed, in plain words.
        """
        ...

    def for_model(self, result: dict[str, Any]) -> str:
        """Return the text of a result that the answering model reads."""
        ...
