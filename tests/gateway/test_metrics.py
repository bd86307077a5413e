"""The gateway's metrics: independent registries, and few label values."""

from __future__ import annotations

from prometheus_client import CollectorRegistry

from gateway.metrics import GatewayMetrics
from tests.gateway.conftest import SetStage


def test_two_gateways_of_one_process_have_their_own_metrics() -> None:
    first, second = GatewayMetrics(CollectorRegistry()), GatewayMetrics(CollectorRegistry())
    first.overloaded.labels("wait").inc()
    assert first.registry.get_sample_value("headrace_requests_refused_total", {"reason": "wait"}) == 1
    assert second.registry.get_sample_value("headrace_requests_refused_total", {"reason": "wait"}) is None


async def test_paths_and_methods_of_clients_do_not_become_labels(set_stage: SetStage) -> None:
    stage = await set_stage()
    await stage.client.get("/v1/models/no/such-model")
    await stage.client.get("/no-such-path-1")
    await stage.client.request("BREW", "/no-such-path-2")
    samples = [
        sample.labels
        for metric in stage.gateway.metrics.registry.collect()
        for sample in metric.samples
        if sample.name == "headrace_http_requests_total"
    ]
    assert {(each["route"], each["method"], each["status"]) for each in samples} == {
        ("/v1/models/{name:path}", "GET", "404"),
        ("unmatched", "GET", "404"),
        ("unmatched", "other", "404"),
    }
