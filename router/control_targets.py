"""Routing keys of control messages in the broker's topic exchange: of a gateway, a worker, or a model's workers."""

ALL = "all"
"""Routing key that reaches every worker."""
GATEWAYS = "gateways"
"""Routing key that reaches every gateway."""


def gateway(process_id: str) -> str:
    """Return the routing key by which a control message reaches the gateway process `process_id`."""
    return f"gateway.{process_id}"


def worker(worker_id: str) -> str:
    """Return the routing key by which a control message reaches the worker `worker_id`."""
    return f"worker.{worker_id}"


def model(name: str) -> str:
    """Return the routing key by which a control message reaches every worker of the model `name`."""
    return f"model.{name}"
