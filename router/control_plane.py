"""Whom a control message is for: routing keys of the control exchange (a topic)."""

ALL = "all"
"""Every worker."""
GATEWAYS = "gateways"
"""Every gateway."""


def worker(worker_id: str) -> str:
    """One worker."""
    return f"worker.{worker_id}"


def model(name: str) -> str:
    """Every worker of a model."""
    return f"model.{name}"
