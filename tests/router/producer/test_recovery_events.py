"""What recovery sees of the broker."""

from __future__ import annotations

import math

from router.producer.recovery_events import BrokerHealth


def test_replies_may_be_lost_until_the_later_of_both_times() -> None:
    assert BrokerHealth().disturbed_at == -math.inf
    assert BrokerHealth(lost_at=5.0, unusable_at=7.0).disturbed_at == 7.0
    assert BrokerHealth(lost_at=9.0, unusable_at=7.0).disturbed_at == 9.0
