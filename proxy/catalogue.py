"""Reads the proxy's catalogue (a TOML file): the upstream providers, and the models that each serves. Read at start-up.

    [upstreams.openai]
    base_url = "https://api.openai.com/v1"
    api_key_env = "OPENAI_API_KEY"

    [models."gpt-4o-mini"]
    max_model_len = 128000
    routes = [{ upstream = "openai" }]
    price = { input = "0.15", cached_input = "0.075", output = "0.60" }

Unknown keys are errors. The file contains no secrets: it names the environment variables that hold them.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Literal, Self
from urllib.parse import urlsplit

from pydantic import (
    AfterValidator,
    BaseModel,
    ConfigDict,
    Field,
    PositiveFloat,
    PositiveInt,
    SecretStr,
    model_validator,
)

from auth_billing.prices.price_file import Entry
from router.messages import Task
from router.topology import check_model_name
from runtime.lifecycle import StartupError
from runtime.toml_file import read_toml


def _check_base_url(url: str) -> str:
    parts = urlsplit(url)
    if parts.scheme not in ("http", "https") or not parts.hostname:
        raise ValueError("must be http://HOST/... or https://HOST/...")
    if parts.username is not None or parts.password is not None or parts.query or parts.fragment:
        raise ValueError("must have no user, password, query or fragment; a key goes into `api_key_env`")
    return url.rstrip("/")


class _Table(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid", use_attribute_docstrings=True)


class Timeouts(_Table):
    """Timeouts of requests to an upstream in seconds. SSE comments (keep-alives) do not count as events."""

    connect: PositiveFloat = 5.0
    first_event: PositiveFloat = 60.0
    """From the request to the first event of the answer."""
    between_events: PositiveFloat = 30.0
    total: PositiveFloat = 600.0
    """From the request to the end of the answer."""


class UpstreamSpec(_Table):
    """Catalogue entry of an OpenAI-compatible server."""

    base_url: Annotated[str, AfterValidator(_check_base_url)]
    """Base URL including the version, for example `https://api.openai.com/v1`."""
    api_key_env: Annotated[str, Field(pattern=r"^[A-Za-z_][A-Za-z0-9_]*$")] | None = None
    """Environment variable that holds the API key; without it no key is sent."""
    timeouts: Timeouts = Timeouts()
    token_limit_field: Literal["max_completion_tokens", "max_tokens"] = "max_completion_tokens"  # noqa: S105
    """Name of the field for a chat's token limit."""
    omit: frozenset[str] = frozenset()
    """Request fields that the upstream does not support, for example `["seed"]`: never sent."""


class Route(_Table):
    """Catalogue entry of an upstream that serves a model, tried in the listed order."""

    upstream: str
    """A name from `[upstreams]`."""
    model: str | None = None
    """The upstream's name of the model; by default the same as here."""


class ModelSpec(_Table):
    """Catalogue entry of a model that the proxy serves."""

    max_model_len: PositiveInt
    """Context length in tokens, shown in `/v1/models`; usage that an upstream reports beyond it is not accepted."""
    task: Task = Task.GENERATE
    """Task of the model: "generate", "embed" or "image"; upstreams' scores are not served."""
    image_sizes: list[Annotated[str, Field(pattern=r"^[1-9]\d{1,3}x[1-9]\d{1,3}$")]] = []
    """Sizes that an image model draws, the default size first; only for the task "image", which needs them."""
    concurrency: Annotated[int, Field(ge=1, le=4096)] = 16
    """Maximum concurrent requests to upstreams."""
    overflow: bool = False
    """Whether to take only jobs for which local workers of the same model have no capacity."""
    price: Entry | None = None
    """Price for clients, as in the price file; without it the price file must have one."""
    tries: Annotated[int, Field(ge=1, le=5)] = 2
    """Attempts at each route if it is unreachable or fails before the first token."""
    routes: Annotated[list[Route], Field(min_length=1)]
    """Routes in the order in which they are tried."""

    @model_validator(mode="after")
    def _no_scores(self) -> Self:
        if self.task is Task.SCORE:
            raise ValueError('task = "score" is not served by upstreams')
        return self

    @model_validator(mode="after")
    def _sizes_of_images(self) -> Self:
        if bool(self.image_sizes) != (self.task is Task.IMAGE):
            raise ValueError('`image_sizes` belongs to models with task = "image", and is required for them')
        return self


class Catalogue(_Table):
    """The content of a catalogue file."""

    upstreams: dict[Annotated[str, Field(pattern=r"^[A-Za-z0-9_\-]{1,64}$")], UpstreamSpec]
    models: Annotated[dict[Annotated[str, AfterValidator(check_model_name)], ModelSpec], Field(min_length=1)]

    @model_validator(mode="after")
    def _known(self) -> Self:
        for name, model in self.models.items():
            for route in model.routes:
                if route.upstream not in self.upstreams:
                    raise ValueError(f"model {name!r} has a route to {route.upstream!r}, which is not in [upstreams]")
        return self


def read(path: Path) -> Catalogue:
    """Read and validate the proxy's catalogue, a TOML file of models and upstream providers; called once at start-up.

    Raises:
        StartupError: the file is missing, is not TOML, or is not a valid catalogue.
    """
    return read_toml(path, Catalogue)


def api_keys(catalogue: Catalogue, environment: Mapping[str, str]) -> dict[str, SecretStr]:
    """Return the API key of each upstream that needs one, by upstream name, from the `environment` variables it names.

    Raises:
        StartupError: an environment variable named in the file is not set, or can't be sent in a header.
    """
    keys = {}
    for name, upstream in catalogue.upstreams.items():
        if upstream.api_key_env is None:
            continue
        key = environment.get(upstream.api_key_env, "").strip()
        if not key or not key.isascii() or not key.isprintable():
            raise StartupError(f"upstream {name!r} takes its API key from {upstream.api_key_env}, which holds none")
        keys[name] = SecretStr(key)
    return keys
