"""Finds and lists the models that clients of the gateway may use, by model name or by the operator's aliases.

Aliases come from a TOML file that is read once at start-up:

    [aliases]
    gpt-4o = "smollm2-135m-instruct"
    "text-embedding-3.5" = "all-minilm-l6-v2"

A target need not be served yet: like every model it becomes available with its first heartbeat. A served model takes
precedence over an alias of the same name, with a warning in the log. A request for an alias is queued, answered and
billed under the model's own name.
"""

from __future__ import annotations

import tomllib
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import structlog

from auth_billing.access.model_access import ModelAccess
from gateway.errors import ModelNotFound
from router.messages import WorkerStatus
from router.model_registry import ModelInfo, ModelRegistry
from router.producer.errors import ModelUnavailable
from runtime.lifecycle import StartupError

MAX_NAME_LENGTH = 200

_log = structlog.get_logger(__name__)


class ModelCatalogue:
    """Lookup of served models by name or by the operator's aliases."""

    def __init__(self, models: ModelRegistry, aliases: Mapping[str, str]) -> None:
        """`aliases` maps alias names to model names, as `read_aliases` returns them."""
        self._models = models
        self._aliases = aliases
        self._shadowed: set[str] = set()

    def observe(self, status: WorkerStatus) -> None:
        """Update the gateway's known models with one worker's heartbeat, which adds its model or keeps it listed."""
        self._models.observe(status)
        if status.model in self._aliases and status.model not in self._shadowed:
            self._shadowed.add(status.model)
            _log.warning("an alias has no effect: a model is served under its name", alias=status.model)

    def find(self, name: str, access: ModelAccess, *, param: str = "model") -> ModelInfo:
        """Return the served model with this name or alias, if the caller may use it.

        Args:
            name: Model name as the client sent it.
            access: The models that the caller may use.
            param: Request field that the name comes from, for error messages.

        Raises:
            ModelNotFound: The name is unknown, or its model was not served within the last hour or is not allowed; the
                error does not reveal which.
            ModelUnavailable: No worker was heard of yet, as after a start of this gateway: any name may be a model's.
        """
        if self._models.is_empty:
            raise ModelUnavailable
        model = self._resolve(name)
        if model is None or not self._permits(access, model):
            raise ModelNotFound(
                f"The model '{name[:128]}' does not exist or you do not have access to it.", param=param
            )
        return model

    def listed(self, access: ModelAccess) -> list[tuple[str, ModelInfo]]:
        """Return the served models that `access` permits, under all their names, for `GET /v1/models`.

        The items are (name or alias, model) pairs, sorted by name.
        """
        served = {model.name: model for model in self._models.models()}
        also = {alias: served[target] for alias, target in self._aliases.items() if target in served}
        return [(name, model) for name, model in sorted((also | served).items()) if self._permits(access, model)]

    def _resolve(self, name: str) -> ModelInfo | None:
        return self._models.find(name) or self._models.find(self._aliases.get(name, ""))

    def _permits(self, access: ModelAccess, model: ModelInfo) -> bool:
        """Whether a model may be used: none that is an assistant with a forbidden model which no operator named."""
        unnamed = model.unnamed_models
        return access.permits(self._names(model.name)) and not any(
            access.forbids(self._names(each)) for each in unnamed
        )

    def _names(self, model: str) -> list[str]:
        """Return a model's own name and the aliases that lead to it."""
        aliases = (alias for alias, target in self._aliases.items() if target == model)
        return [model, *(alias for alias in aliases if self._models.find(alias) is None)]


def read_aliases(file: str) -> Mapping[str, str]:
    """Read the operator's model aliases (alias to model name) from a TOML file; empty if the path `file` is "".

    Raises:
        StartupError: The file can't be read, is not TOML, or is not a valid table of aliases.
    """
    if not file:
        return {}
    path = Path(file).expanduser()
    try:
        content = tomllib.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise StartupError(f"can't read the aliases in {path}: {error.strerror}") from error
    except ValueError as error:  # not UTF-8, or not TOML
        raise StartupError(f"can't read the aliases in {path}: {error}") from error
    table = content.get("aliases")
    if not isinstance(table, dict) or len(content) > 1:
        raise StartupError(f"{path} must hold one table, [aliases], and nothing else")
    for alias, target in table.items():
        if (problem := _problem(alias, target, table)) is not None:
            raise StartupError(f"{path}: alias {alias[:MAX_NAME_LENGTH]!r} {problem}")
    return table


def _problem(alias: str, target: Any, table: Mapping[str, Any]) -> str | None:
    if isinstance(target, dict):  # `gpt-3.5-turbo = "..."` is a table `gpt-3` to TOML
        return "is a table: write names with a dot in quotes"
    if not isinstance(target, str):
        return "must be a model's name in quotes"
    if not all(name.isprintable() and name.strip() and len(name) <= MAX_NAME_LENGTH for name in (alias, target)):
        return f"and its model must be printable names of 1 to {MAX_NAME_LENGTH} characters"
    if target in table:
        return f"leads to {target!r}, which is an alias itself: name the model"
    return None
