"""The documentation lists exactly the metrics of a proxy."""

from __future__ import annotations

import re
from pathlib import Path

from prometheus_client import CollectorRegistry

from proxy.metrics import ProxyCollectors

DOCUMENT = Path(__file__).parents[2] / "docs" / "providers.md"


def test_the_documentation_lists_every_metric_of_a_proxy() -> None:
    registry = CollectorRegistry()
    ProxyCollectors(registry)
    listed = set(re.findall(r"^\| `(headrace_\w+)` \|", DOCUMENT.read_text(), re.MULTILINE))
    families = [(family.name, family.type) for family in registry.collect()]
    assert listed == {f"{name}_total" if kind == "counter" else name for name, kind in families}
