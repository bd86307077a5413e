"""Reads which models a home's gateways serve, from their `/status`, and notes model names that no worker serves."""

from __future__ import annotations

from infra.home.home import Home
from infra.home.process_records import ProcessRecords
from infra.launcher.readiness import get_json


def served_models(home: Home) -> set[str] | None:
    """Return the models that workers serve now; `None` if no gateway recorded in `home` replies."""
    statuses = [get_json(record.status_url) for record in ProcessRecords(home.run).all() if record.process()]
    gateways = [status["models"] for status in statuses if status is not None and "models" in status]
    return {model for models in gateways for model in models} if gateways else None


def unknown_model_note(model: str, served: set[str] | None) -> str:
    """Return a note that `model`, which has no price of its own, may be misspelt; "" if it is served."""
    if served is None:
        return f"{model} has no price of its own, and no gateway of this home reports served models: check the name"
    if model in served:
        return ""
    names = ", ".join(sorted(served)) or "none"
    return f"no worker serves {model} now, and it has no price of its own (served: {names}): check the name"
