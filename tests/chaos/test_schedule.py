"""A schedule is determined by its seed, keeps to its time, and injects about as many faults as planned."""

from __future__ import annotations

import pytest

from tests.chaos.configurations import CONFIGURATIONS, Configuration
from tests.chaos.nemeses import NEMESES
from tests.chaos.schedule import Plan, schedule

PLANS = [Plan("kill", 3), Plan("freeze", 10, (2, 5))]


def test_the_same_seed_is_the_same_schedule() -> None:
    assert schedule(7, PLANS, 180) == schedule(7, PLANS, 180)
    assert schedule(7, PLANS, 180) != schedule(8, PLANS, 180)


def test_a_nemesis_strikes_the_same_whoever_else_does() -> None:
    both = schedule(7, PLANS, 180)
    assert [fault for fault in both if fault.nemesis == "kill"] == schedule(7, PLANS[:1], 180)


def test_faults_are_in_order_and_over_in_time() -> None:
    faults = schedule(7, PLANS, 60)
    assert [fault.at for fault in faults] == sorted(fault.at for fault in faults)
    assert all(fault.at > 0 and fault.at + fault.lasts <= 60 for fault in faults)
    kills = sum(fault.nemesis == "kill" for fault in faults)
    assert 15 <= kills <= 26


def test_sixteen_configurations_of_nemeses_that_there_are() -> None:
    assert len({each.name for each in CONFIGURATIONS}) == 16
    assert {plan.nemesis for each in CONFIGURATIONS for plan in each.plans} <= NEMESES.keys()


@pytest.mark.parametrize("configuration", CONFIGURATIONS, ids=lambda each: each.name)
def test_each_configuration_strikes_in_its_time(configuration: Configuration) -> None:
    faults = schedule(1, configuration.plans, 180)
    assert {fault.nemesis for fault in faults} == {plan.nemesis for plan in configuration.plans}
