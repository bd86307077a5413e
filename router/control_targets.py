"""Targets of control messages: routing keys of the control exchange (a topic exchange)."""

ALL = "all"
"""Routing key that reaches every worker."""
GATEWAYS = "gateways"
"""Routing key that reaches every gateway."""


def gateway(process_id: str) -> str:
    """Return the routing key of control messages to one gateway process."""
    return f"gateway.{process_id}"


def worker(worker_id: str) -> str:
    """Return the routing key of control messages to one worker."""
    return f"worker.{worker_id}"


def model(name: str) -> str:
    """Return the routing key of control messages to every worker of a model."""
    return f"model.{name}"
