"""Which models are served from outside, and by whom: a TOML file, read once at start-up.

    [upstreams.openai]
    base_url = "https://api.openai.com/v1"
    api_key_env = "OPENAI_API_KEY"

    [models."gpt-4o-mini"]
    max_model_len = 128000
    routes = [{ upstream = "openai" }]
    price = { input = "0.15", cached_input = "0.075", output = "0.60" }

Unknown keys fail. Secrets are not in the file: it names the environment variables that hold them.
"""

from __future__ import annotations

import tomllib
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
    ValidationError,
    model_validator,
)

from auth_billing.prices.price_file import Entry
from router.messages import Task
from router.topology import check_model_name
from runtime.lifecycle import StartupError


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
    """Seconds. A comment that only keeps the connection open is no sign of life."""

    connect: PositiveFloat = 5.0
    first_event: PositiveFloat = 60.0
    """From the request to the first event of the answer."""
    between_events: PositiveFloat = 30.0
    total: PositiveFloat = 600.0


class UpstreamSpec(_Table):
    """An OpenAI-compatible server."""

    base_url: Annotated[str, AfterValidator(_check_base_url)]
    """With the version: `https://api.openai.com/v1`."""
    api_key_env: Annotated[str, Field(pattern=r"^[A-Za-z_][A-Za-z0-9_]*$")] | None = None
    """Environment variable that holds the API key; without it no key is sent."""
    timeouts: Timeouts = Timeouts()
    token_limit_field: Literal["max_completion_tokens", "max_tokens"] = "max_completion_tokens"  # noqa: S105
    """How a chat's token limit is called there."""
    omit: frozenset[str] = frozenset()
    """Request fields that it does not take, for example `["seed"]`: left out, whatever a client asks."""


class Route(_Table):
    """One of the places where a model is to be had."""

    upstream: str
    """A name from `[upstreams]`."""
    model: str | None = None
    """What the model is called there; by default as here."""


class ModelSpec(_Table):
    """A model as it is served here."""

    max_model_len: PositiveInt
    """Context length in tokens: what `/v1/models` says, and the most that an upstream is believed to have used."""
    task: Task = Task.GENERATE
    """What it does with a prompt: "generate" or "embed"."""
    concurrency: Annotated[int, Field(ge=1, le=4096)] = 16
    """Requests outside at a time."""
    overflow: bool = False
    """Take only what local workers of the same model have no room for."""
    price: Entry | None = None
    """What clients pay for it here, as in the price file; without it the price file says what it costs."""
    tries: Annotated[int, Field(ge=1, le=5)] = 2
    """How often each route is tried before the next, if it can't be reached or fails before the first token."""
    routes: Annotated[list[Route], Field(min_length=1)]
    """In the order in which they are tried."""


class Catalogue(_Table):
    """The whole file."""

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
    """Read the file.

    Raises:
        StartupError: it is not there, not TOML, or says something that we don't understand.
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


def api_keys(catalogue: Catalogue, environment: Mapping[str, str]) -> dict[str, SecretStr]:
    """The key of each upstream that needs one.

    Raises:
        StartupError: a variable that the file names is not set, or holds what can't be a header.
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
