"""The other gateways' load: sums of their latest reports, which expire."""

from __future__ import annotations

from gateway.admission.other_gateways import OtherGateways, OtherGatewaysLoad
from gateway.admission.waiting_work import OthersWork, Work
from router.messages import ActiveRequester, GatewayLoad, QueuedWork, RequesterWork, ServiceClass
from router.timings import DEFAULT_TIMINGS
from tests.fakes.accounts import FakeClock

DEFAULT = ServiceClass.DEFAULT


def load(gateway: str, *requesters: RequesterWork, active: str = "") -> GatewayLoad:
    """Ten waiting sequences of ten tokens each, and two that run."""
    work = QueuedWork(model="m", service_class=DEFAULT, waiting=10, tokens=100, running=2, requesters=list(requesters))
    users = [ActiveRequester(model="m", tenant="t", requester=each) for each in active]
    return GatewayLoad(gateway=gateway, queues=[work], active=users)


def test_reports_are_summed_and_the_latest_of_each_gateway_counts() -> None:
    others = OtherGateways(lambda: 5.0)
    ada, bob = (RequesterWork(tenant="t", requester=name, waiting=3, tokens=30) for name in ("ada", "bob"))
    for each in (load("g2", ada), load("g2", ada, active="ab"), load("g3", ada, bob, active="bc")):
        others.observe(each)
    assert others.load("m") == OtherGatewaysLoad(2, 24, {"t": {"a", "b", "c"}}, alive=2, reported=5.0)
    assert others.running("m", DEFAULT) == 4
    waiting = others.waiting("m", DEFAULT)
    assert waiting.total == Work(20, 200)
    assert waiting.tenants == {"t": Work(9, 90)}
    assert waiting.requesters == {"t": {"ada": Work(6, 60), "bob": Work(3, 30)}}
    assert waiting.unattributed == Work(11, 110)
    assert others.waiting("m", ServiceClass.FLEX) == OthersWork()
    assert others.load("another") == OtherGatewaysLoad(alive=2, reported=5.0)


def test_an_idle_gateway_reports_its_active_requesters_only() -> None:
    others = OtherGateways(lambda: 5.0)
    others.observe(GatewayLoad(gateway="g2", active=[ActiveRequester(model="m", tenant="t", requester="a")]))
    assert others.load("m") == OtherGatewaysLoad(0, 0, {"t": {"a"}}, alive=1, reported=5.0)


def test_flex_is_counted_apart() -> None:
    others = OtherGateways(lambda: 5.0)
    flex = QueuedWork(model="m", service_class=ServiceClass.FLEX, waiting=4, tokens=9, running=3)
    others.observe(GatewayLoad(gateway="g2", queues=[*load("g2").queues, flex]))
    assert others.load("m") == OtherGatewaysLoad(1, 19, alive=1, reported=5.0, flex_sequences=7)
    assert (others.running("m", DEFAULT), others.running("m", ServiceClass.FLEX)) == (2, 3)


def test_reports_expire() -> None:
    clock = FakeClock()
    others = OtherGateways(clock)
    others.observe(load("g2"))
    began = clock.now
    clock.now += DEFAULT_TIMINGS.load_report_timeout - 1
    others.observe(load("g3", active="a"))
    clock.now += 1.5
    assert others.load("m") == OtherGatewaysLoad(1, 12, {"t": {"a"}}, alive=1, reported=began + 2.0)
    clock.now += DEFAULT_TIMINGS.load_report_timeout
    assert others.load("m") == OtherGatewaysLoad()
    assert others.running("m", DEFAULT) == 0


def test_a_report_whose_parts_exceed_its_totals_leaves_nothing_unattributed() -> None:
    others = OtherGateways(lambda: 5.0)
    others.observe(load("g2", RequesterWork(tenant="t", requester="a", waiting=11, tokens=120)))
    assert others.waiting("m", DEFAULT).unattributed == Work()
