"""Defines the port of the assistant's tools: what a tool must offer, the context of a call, and the errors of calls.

ToolError              code
├── NotFound            not_found
├── Unavailable         unavailable
├── TooLarge            too_large
├── Refused             refused
├── InvalidArguments    invalid_arguments
├── ConsentRequired     consent
└── ToolOff             off
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, ClassVar, Protocol, runtime_checkable

from assistant.model_port import ModelPort
from assistant.tools import sentences
from assistant.tools.sentences import Sentence
from router.messages import Job, UsagePart
from router.model_registry import ModelInfo


@dataclass(frozen=True)
class JobCall:
    """The job in whose name a tool calls models."""

    job: Job
    """The job, with its deadline by this machine's clock."""
    headers: Mapping[str, object]
    """Headers of the job's message, with its trace."""
    step: int
    """Number of the step that the call is, by which its child job is named."""
    models: ModelPort
    answers_with: str
    """Name of the answering model."""
    bill: Callable[[UsagePart], None]
    """Adds a part to the bill of the step."""


@dataclass(frozen=True)
class ToolContext:
    """Context of one call of a tool: the organisation, the user or API key, and the conversation's language."""

    tenant: str
    requester: str
    language: str
    """BCP 47 tag, such as `en` or `pl`."""
    question: str = ""
    """The person's last message as it was written, before any rewrite: what only the person may name is found in it."""
    call: JobCall | None = None
    """`None` outside of a job."""
    tools_allowed: frozenset[str] = frozenset()
    """Consents of the person for this question: names of tools that ask, or what `ConsentRequired.details` has."""


class Tool(Protocol):
    """A function that a model can have called: fetches, computes or draws, and returns a JSON object with a `type`."""

    @property
    def name(self) -> str:
        """Name of the tool in calls, steps and prices, such as `weather` or `mcp.SERVER.TOOL`."""

    @property
    def description(self) -> str:
        """What the tool does and when to call it, in English, for models."""

    @property
    def parameters(self) -> dict[str, Any]:
        """JSON schema of the arguments of a call, which are an object."""

    @property
    def time_limit(self) -> float:
        """Seconds after which a call of the tool is cancelled."""

    @property
    def cache_seconds(self) -> float:
        """Seconds for which a result of the tool is reused for equal arguments in the same language; 0: never."""

    async def run(self, arguments: dict[str, Any], context: ToolContext) -> dict[str, Any]:
        """Run the tool with valid arguments and return its result, a JSON object with a `type`.

        Raises:
            ToolError: the call failed; its message is for the person.
        """

    def phrased(self, result: dict[str, Any]) -> str | None:
        """Return the text of the answer for a result of this tool, without a model.

        "" if the answer needs no text, as that of images; `None`: only a model can phrase it.
        """

    def for_model(self, result: dict[str, Any]) -> str:
        """Return a result of this tool as the text that the answering model reads in its prompt."""

    def from_question(self, question: str, language: str) -> dict[str, Any] | None:
        """Return arguments for a call of this tool, found in a question without a model; `None` if it has none."""


@runtime_checkable
class UsesModels(Protocol):
    """A tool that calls models, which its step is billed for."""

    def most_parts(self, answers_with: ModelInfo | None) -> list[UsagePart]:
        """Return the most that one call can use of models, as parts of a bill; empty if they are not served.

        `answers_with` is the answering model, if it is known.
        """

    def unnamed_models(self) -> list[str]:
        """Return the names of models that a call uses only because they are served; the catalogue names none."""


class ToolError(Exception):
    """Base of the errors of a tool call. The message is in plain words for the person, in their language."""

    code: ClassVar[str] = "tool_error"
    default: ClassVar[Sentence] = sentences.UNAVAILABLE

    def __init__(self, sentence: Sentence | None = None, **values: object) -> None:
        self.sentence = self.default if sentence is None else sentence
        self.values = values
        super().__init__(self.message("en"))

    @property
    def details(self) -> dict[str, str]:
        """Further fields of the error in the step of an answer, beside its code and message; none by default."""
        return {}

    def message(self, language: str) -> str:
        """Return the error's message for the person in `language`; English for languages that have no translation."""
        return self.sentence.text(language, **self.values)


class NotFound(ToolError):
    """Raised when the place, article, page or tool does not exist."""

    code = "not_found"
    default = sentences.NOT_FOUND


class Unavailable(ToolError):
    """Raised when a tool failed, timed out, or its outside service does not answer."""

    code = "unavailable"
    default = sentences.UNAVAILABLE


class TooLarge(ToolError):
    """Raised when an input or a result exceeds a limit."""

    code = "too_large"
    default = sentences.TOO_LARGE


class Refused(ToolError):
    """Raised when a call is forbidden, such as the address of a private network."""

    code = "refused"
    default = sentences.REFUSED


class InvalidArguments(ToolError):
    """Raised when arguments do not match the tool's schema or can't be read."""

    code = "invalid_arguments"
    default = sentences.INVALID_ARGUMENTS

    def __init__(self, sentence: Sentence | None = None, *, field: str = "", **values: object) -> None:
        """`field` is the path of the argument that does not match the schema; "": unknown, or all of them."""
        super().__init__(sentence, **values)
        self.field = field


class ConsentRequired(ToolError):
    """Raised when a tool is called only if the person allows it, and the question does not allow it."""

    code = "consent"
    default = sentences.CONSENT_REQUIRED

    def __init__(self, *, tool: str, server: str, allow: str, allow_once: str) -> None:
        """`allow` and `allow_once` are what a question has to contain to allow the tool, or this call of it alone."""
        super().__init__(tool=tool, server=server)
        self._details = {"server": server, "tool": tool, "allow": allow, "allow_once": allow_once}

    @property
    def details(self) -> dict[str, str]:
        """The tool and its server, and the texts by which the person can allow the tool or this one call."""
        return self._details


class ToolOff(ToolError):
    """Raised when a tool is switched off for the conversation, the organisation or the installation."""

    code = "off"
    default = sentences.TOOL_OFF
