"""`docs/metrics.md` lists every metric of gateway, billing and proxy as the code defines it, both ways.

`python -m tests.infra.test_metrics_docs` prints the tables as they should stand. The worker's are compared in
`tests/inference_worker/worker/test_metrics.py`.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from prometheus_client import CollectorRegistry

from auth_billing.metrics import BillingMetrics
from gateway.metrics import GatewayMetrics
from proxy.metrics import ProxyCollectors
from stored_objects.objects.metrics import ObjectMetrics

PAGE = Path(__file__).resolve().parents[2] / "docs" / "metrics.md"
PROCESSES: dict[str, Callable[[CollectorRegistry], object]] = {
    "Gateway": GatewayMetrics,
    "Billing": BillingMetrics,
    "Proxy": ProxyCollectors,
    "Stored objects": ObjectMetrics,
}


def rows(collectors: Callable[[CollectorRegistry], object]) -> list[str]:
    """One row a metric: name, type, help."""
    registry = CollectorRegistry()
    collectors(registry)
    suffix = {"counter": "_total"}
    return [
        f"| `{each.name}{suffix.get(each.type, '')}` | {each.type} | {each.documentation.rstrip('.')} |"
        for each in registry.collect()
    ]


@pytest.mark.parametrize("process", PROCESSES)
def test_the_page_has_every_metric_as_it_is_and_no_other(process: str) -> None:
    section = PAGE.read_text().split(f"\n## {process}\n")[1].split("\n## ")[0]
    written = [line for line in section.splitlines() if line.startswith("| `headrace_")]
    assert written == rows(PROCESSES[process]), "run python -m tests.infra.test_metrics_docs"


if __name__ == "__main__":
    for name, collectors in PROCESSES.items():
        print("\n".join([f"## {name}", "", "| name | type | meaning |", "|---|---|---|", *rows(collectors), ""]))
