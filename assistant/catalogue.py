"""Reads the catalogue of an assistant process, a TOML file with its assistants, tools and MCP servers, at start-up.

    [models.assistant]
    answers_with = "smollm2-135m-instruct"
    tools = ["math", "weather", "wikipedia"]
    routing = { way = "classifier" }

    [tools.weather]
    service = "open-meteo"

Unknown keys are errors. The file contains no secrets: it names the environment variables that hold them.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Literal, Self

from pydantic import (
    AfterValidator,
    BaseModel,
    ConfigDict,
    Field,
    SecretStr,
    model_validator,
)

from auth_billing.prices.price_file import Entry
from router.topology import check_model_name
from runtime.lifecycle import StartupError
from runtime.toml_file import read_toml

McpToolName = Annotated[str, Field(pattern=r"^mcp\.[a-z0-9_-]{1,32}\.[A-Za-z0-9_.-]{1,100}$")]
ToolName = Literal["math", "weather", "wikipedia", "web_page", "image"] | McpToolName
EnvironmentName = Annotated[str, Field(pattern=r"^[A-Za-z_][A-Za-z0-9_]*$")]
ModelName = Annotated[str, AfterValidator(check_model_name)]
DEFAULT_MODEL = "assistant"


class _Table(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid", use_attribute_docstrings=True)


class Routing(_Table):
    """How the assistant chooses a tool."""

    way: Literal["classifier", "grammar", "function"] = "classifier"
    """`classifier`: without a model; `grammar`: a model, held to a grammar; `function`: a model's function calls."""
    model: ModelName | None = None
    """The model that chooses; by default the one that answers. A classifier has none."""
    arguments: bool = False
    """Whether the model writes the tool's arguments too, in the way `grammar`; else rules find them in the question."""
    embeddings: ModelName | Literal[False] | None = None
    """Embedding model beside the classifier; by default the one that is served, the first by name if several are.

    `false`: none. While no worker serves it, and for languages that it does not know, n-grams decide alone."""

    @model_validator(mode="after")
    def _arguments_of_a_grammar(self) -> Self:
        if self.arguments and self.way != "grammar":
            raise ValueError("`arguments` is for the way `grammar`")
        return self

    @model_validator(mode="after")
    def _embeddings_of_a_classifier(self) -> Self:
        if self.embeddings and self.way != "classifier":
            raise ValueError("`embeddings` is for the way `classifier`")
        return self


class AssistantSpec(_Table):
    """Catalogue entry of an assistant: a model that answers with tools and another model."""

    answers_with: ModelName | None = None
    """The model that writes the answers; by default the text model that is served, the first by name if several are."""
    tools: tuple[ToolName, ...] = ("math", "weather", "wikipedia", "image")
    """Tools that it may call."""
    routing: Routing = Routing()
    rewrites: Literal["rules", "model"] = "rules"
    """Who rewrites follow-up questions to stand alone: rules, or the answering model with the rules as its check."""
    phrases: Literal["tools", "model"] = "tools"
    """Who phrases the answer from a tool's result: the tool, which small models can't beat, or the answering model."""
    system: str = ""
    """System prompt, before that of the client."""
    concurrency: Annotated[int, Field(ge=1, le=4096)] = 64
    """Maximum concurrent answers."""
    price: Entry | None = None
    """Price of the answer's tokens, as in the price file; without it the price file must have one."""


class WeatherSpec(_Table):
    """Service of the weather tool."""

    service: Literal["open-meteo", "openweather"] = "open-meteo"
    api_key_env: Annotated[str, Field(pattern=r"^[A-Za-z_][A-Za-z0-9_]*$")] | None = None
    """Environment variable with the key of OpenWeather; Open-Meteo needs none."""
    url: str | None = None
    """Base URL of the service, if it is another one than the public one."""

    @model_validator(mode="after")
    def _key(self) -> Self:
        if (self.service == "openweather") != (self.api_key_env is not None):
            raise ValueError("`api_key_env` is for the service `openweather`, which needs it")
        return self


class ImageSpec(_Table):
    """What the tool `image` draws with."""

    model: ModelName | None = None
    """The image model; by default the one that is served, the first by name if several are."""
    sizes: tuple[Annotated[str, Field(pattern=r"^[1-9][0-9]{0,4}x[1-9][0-9]{0,4}$")], ...] = ()
    """Sizes that may be asked for, the default first; by default the model's default size alone."""
    most: Annotated[int, Field(ge=1, le=4)] = 1
    """Most images of one call. Every request holds the price of so many images of each size."""


class ToolsSpec(_Table):
    """Settings of the tools."""

    image: ImageSpec = ImageSpec()
    """Images are drawn if an image model is served, in sizes that have a price."""
    weather: WeatherSpec | None = None
    """Without this table the weather is off: it asks a service on the internet."""
    wikipedia: bool = False
    """Whether Wikipedia may be asked: it is on the internet."""
    wikipedia_url: str | None = None
    """Address of another wiki's API, with `{language}` where the language is."""
    web_page: bool = False
    """Whether the page that a person names may be read."""
    permitted_networks: tuple[str, ...] = ()
    """Private networks, such as `10.1.0.0/16`, that tools may reach; by default public addresses only."""
    contact: str = ""
    """Address of the operator, sent to services as they ask for: an e-mail address or a URL."""


class McpSpec(_Table):
    """A server of the Model Context Protocol: the address of one, or a command that is one over stdio."""

    url: Annotated[str, Field(max_length=2048)] | None = None
    """Address of a server that speaks streamable HTTP; public, unless `permitted_networks` contains it."""
    command: Annotated[tuple[Annotated[str, Field(min_length=1)], ...], Field(min_length=1, max_length=64)] | None = (
        None
    )
    """Program and arguments of a server that speaks stdio. It runs with the rights of the assistant's process."""
    token_env: EnvironmentName | None = None
    """Environment variable with the bearer token of the address."""
    env: tuple[EnvironmentName, ...] = ()
    """Environment variables that the command gets; it gets no others."""
    permitted_networks: tuple[str, ...] = ()
    """Private networks, such as `127.0.0.0/8`, in which the address may be."""
    tools: Annotated[tuple[Annotated[str, Field(pattern=r"^[A-Za-z0-9_.-]{1,100}$")], ...], Field(min_length=1)]
    """The server's tools that may be offered; others are ignored."""
    fingerprints: dict[str, Annotated[str, Field(pattern=r"^[0-9a-f]{64}$")]] = {}
    """Approved fingerprints by tool. Without one, a tool of the consent `operator` is off; of another tool the first
    description of a process's life counts as approved."""
    consent: Literal["operator", "person"] = "person"
    """`person`: a question has to allow a tool by `tools_allowed`; `operator`: `fingerprints` are the consent."""
    time_limit: Annotated[float, Field(gt=0, le=600)] = 30.0
    """Seconds of one call."""

    @model_validator(mode="after")
    def _one_transport(self) -> Self:
        if (self.url is None) == (self.command is None):
            raise ValueError("an MCP server has either a `url` or a `command`")
        if self.command is not None and (self.token_env is not None or self.permitted_networks):
            raise ValueError("`token_env` and `permitted_networks` are for a `url`")
        if self.url is not None and self.env:
            raise ValueError("`env` is for a `command`")
        if unknown := self.fingerprints.keys() - set(self.tools):
            raise ValueError(f"`fingerprints` has {min(unknown)!r}, which `tools` lacks")
        return self


class Catalogue(_Table):
    """The content of a catalogue file."""

    models: Annotated[dict[ModelName, AssistantSpec], Field(min_length=1)]
    tools: ToolsSpec = ToolsSpec()
    mcp: dict[Annotated[str, Field(pattern=r"^[a-z0-9_-]{1,32}$")], McpSpec] = {}

    @model_validator(mode="after")
    def _no_circle(self) -> Self:
        for name, spec in self.models.items():
            for model in {spec.answers_with, spec.routing.model, spec.routing.embeddings} & self.models.keys():
                raise ValueError(f"model {name!r} calls {model!r}, which is an assistant too")
        return self

    @model_validator(mode="after")
    def _mcp_tools_exist(self) -> Self:
        known = {f"mcp.{server}.{tool}" for server, spec in self.mcp.items() for tool in spec.tools}
        for name, spec in self.models.items():
            wanted = {tool for tool in spec.tools if tool.startswith("mcp.")}
            if unknown := wanted - known:
                raise ValueError(f"model {name!r} has {min(unknown)!r}, which no [mcp] table permits")
            if wanted and spec.routing.way == "classifier":
                raise ValueError(f"model {name!r}: a classifier chooses no MCP tools; set another way of routing")
        return self


DEFAULT = Catalogue(models={DEFAULT_MODEL: AssistantSpec()})
"""The catalogue of an installation without a file: one assistant, with what runs without the internet."""


def read(path: Path) -> Catalogue:
    """Read and validate the catalogue file (TOML) of an assistant process at `path`, and return its content.

    Raises:
        StartupError: the file is missing, is not TOML, or is not a valid catalogue.
    """
    return read_toml(path, Catalogue)


def mcp_secrets(catalogue: Catalogue, environment: Mapping[str, str]) -> dict[str, str]:
    """Return the values of the environment variables that the catalogue's MCP servers name, by variable.

    Raises:
        StartupError: a variable is not set, or a token can't be sent in a request.
    """
    found = {}
    for server, spec in catalogue.mcp.items():
        for name in (*spec.env, *([spec.token_env] if spec.token_env else [])):
            if name not in environment:
                raise StartupError(f"the MCP server {server!r} takes {name} from the environment, which lacks it")
            found[name] = environment[name].strip() if name == spec.token_env else environment[name]
        token = found[spec.token_env] if spec.token_env else "-"
        if not token or not token.isascii() or not token.isprintable():
            raise StartupError(f"{spec.token_env} holds no token for the MCP server {server!r}")
    return found


def weather_key(catalogue: Catalogue, environment: Mapping[str, str]) -> SecretStr | None:
    """Return the API key of the catalogue's weather service from `environment`; `None` if the service needs none.

    Raises:
        StartupError: the environment variable named in the file is not set, or can't be sent in a request.
    """
    weather = catalogue.tools.weather
    if weather is None or weather.api_key_env is None:
        return None
    key = environment.get(weather.api_key_env, "").strip()
    if not key or not key.isascii() or not key.isprintable():
        raise StartupError(f"the weather service takes its API key from {weather.api_key_env}, which holds none")
    return SecretStr(key)
