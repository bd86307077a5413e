"""Names that clients may ask for: those of the models that are served, and the operator's aliases for them.

Aliases come from a TOML file that is read once at start-up:

    [aliases]
    gpt-4o = "smollm2-135m-instruct"
    "text-embedding-3.5" = "all-minilm-l6-v2"

A target need not be served yet: like every model it appears with its first heartbeat. A model that is served under an
alias's name wins over the alias, and the log says so. Does not know requests: what asks for an alias is queued,
answered and accounted under the model's own name.
"""

from __future__ import annotations

import tomllib
from collections.abc import Collection, Mapping
from pathlib import Path
from typing import Any

import structlog

from gateway.errors import ModelNotFound
from router.messages import WorkerStatus
from router.registry import ModelInfo, ModelRegistry
from runtime.lifecycle import StartupError

LONGEST_NAME = 200

_log = structlog.get_logger(__name__)


class Catalogue:
    """The models of a registry by every name that they have."""

    def __init__(self, models: ModelRegistry, aliases: Mapping[str, str]) -> None:
        """`aliases`: from a name to a model's, as `read_aliases` gives them."""
        self._models = models
        self._aliases = aliases
        self._shadowed: set[str] = set()

    def observe(self, status: WorkerStatus) -> None:
        """Take in a heartbeat."""
        self._models.observe(status)
        if status.model in self._aliases and status.model not in self._shadowed:
            self._shadowed.add(status.model)
            _log.warning("an alias has no effect: a model is served under its name", alias=status.model)

    def find(self, name: str, allowed: Collection[str] | None) -> ModelInfo:
        """The model that `name` asks for.

        Args:
            name: as the client wrote it.
            allowed: names of the models that may be asked for, each by any of its names; `None`: all.

        Raises:
            ModelNotFound: no model or alias of that name, or the alias's target was not seen within the hour, or it is
                not allowed: nobody is told which.
        """
        model = self._resolve(name)
        if model is None or not self._is_allowed(model, allowed):
            raise ModelNotFound(
                f"The model '{name[:128]}' does not exist or you do not have access to it.", param="model"
            )
        return model

    def listed(self, allowed: Collection[str] | None) -> list[tuple[str, ModelInfo]]:
        """Every name that can be asked for with the model behind it, by name; `allowed` as for `find`."""
        served = {model.name: model for model in self._models.models()}
        also = {alias: served[target] for alias, target in self._aliases.items() if target in served}
        return [(name, model) for name, model in sorted((also | served).items()) if self._is_allowed(model, allowed)]

    def _resolve(self, name: str) -> ModelInfo | None:
        return self._models.find(name) or self._models.find(self._aliases.get(name, ""))

    def _is_allowed(self, model: ModelInfo, allowed: Collection[str] | None) -> bool:
        if allowed is None or model.name in allowed:
            return True
        return any((meant := self._resolve(name)) is not None and meant.name == model.name for name in allowed)


def read_aliases(file: str) -> Mapping[str, str]:
    """The aliases that `file` holds; "": there is none.

    Raises:
        StartupError: it can't be read, is no TOML, or holds something else than aliases of models; in one line.
    """
    if not file:
        return {}
    path = Path(file).expanduser()
    try:
        content = tomllib.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise StartupError(f"can't read the aliases in {path}: {error.strerror}") from error
    except ValueError as error:  # no UTF-8, or no TOML
        raise StartupError(f"can't read the aliases in {path}: {error}") from error
    table = content.get("aliases")
    if not isinstance(table, dict) or len(content) > 1:
        raise StartupError(f"{path} must hold one table, [aliases], and nothing else")
    for alias, target in table.items():
        if (wrong := _wrong_with(alias, target, table)) is not None:
            raise StartupError(f"{path}: alias {alias[:LONGEST_NAME]!r} {wrong}")
    return table


def _wrong_with(alias: str, target: Any, table: Mapping[str, Any]) -> str | None:
    if isinstance(target, dict):  # `gpt-3.5-turbo = "..."` is a table `gpt-3` to TOML
        return "is a table: write names with a dot in quotes"
    if not isinstance(target, str):
        return "must be a model's name in quotes"
    if not all(name.isprintable() and name.strip() and len(name) <= LONGEST_NAME for name in (alias, target)):
        return f"and its model must be printable names of 1 to {LONGEST_NAME} characters"
    if target in table:
        return f"leads to {target!r}, which is an alias itself: name the model"
    return None
