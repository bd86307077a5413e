"""Reads the assistant's catalogue of models, a TOML file, once at start-up.

    [models.assistant]
    answers_with = "smollm2-135m-instruct"
    tools = ["math", "weather", "wikipedia"]
    routing = { way = "classifier" }

    [tools.weather]
    service = "open-meteo"

Unknown keys are errors. The file contains no secrets: it names the environment variables that hold them.
"""

from __future__ import annotations

import tomllib
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Literal, Self

from pydantic import (
    AfterValidator,
    BaseModel,
    ConfigDict,
    Field,
    SecretStr,
    ValidationError,
    model_validator,
)

from auth_billing.prices.price_file import Entry
from router.topology import check_model_name
from runtime.lifecycle import StartupError

ToolName = Literal["math", "weather", "wikipedia", "web_page", "image"]
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


class AssistantSpec(_Table):
    """Catalogue entry of an assistant: a model that answers with tools and another model."""

    answers_with: ModelName | None = None
    """The model that writes the answers; by default the text model that is served, the first by name if several are."""
    tools: tuple[ToolName, ...] = ("math", "weather", "wikipedia", "image")
    """Tools that it may call."""
    routing: Routing = Routing()
    rewrites: Literal["rules", "model"] = "rules"
    """Who rewrites follow-up questions to stand alone: rules, or the answering model with the rules as its check."""
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
    """Images are drawn if an image model is served; its sizes need prices."""
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


class Catalogue(_Table):
    """The content of a catalogue file."""

    models: Annotated[dict[ModelName, AssistantSpec], Field(min_length=1)]
    tools: ToolsSpec = ToolsSpec()

    @model_validator(mode="after")
    def _no_circle(self) -> Self:
        for name, spec in self.models.items():
            for model in {spec.answers_with, spec.routing.model} & self.models.keys():
                raise ValueError(f"model {name!r} calls {model!r}, which is an assistant too")
        return self


DEFAULT = Catalogue(models={DEFAULT_MODEL: AssistantSpec()})
"""The catalogue of an installation without a file: one assistant, with what runs without the internet."""


def read(path: Path) -> Catalogue:
    """Read and validate the assistant's catalogue, a TOML file.

    Raises:
        StartupError: the file is missing, is not TOML, or is not a valid catalogue.
    """
    try:
        return Catalogue.model_validate(tomllib.loads(path.read_text(encoding="utf-8")))
    except OSError as error:
        raise StartupError(f"cannot read {path}: {error.strerror}") from error
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise StartupError(f"{path} is not TOML: {error}") from error
    except ValidationError as error:
        first = error.errors(include_url=False, include_context=False)[0]
        where = ".".join(map(str, first["loc"]))
        raise StartupError(f"{path}: {where + ': ' if where else ''}{first['msg']}") from error


def weather_key(catalogue: Catalogue, environment: Mapping[str, str]) -> SecretStr | None:
    """Return the weather service's API key from `environment`; `None` if it needs none.

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
