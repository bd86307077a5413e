"""Billing of a gateway and a settler over the stores of a test, at the time `workload.NOW`."""

from __future__ import annotations

import pytest
from prometheus_client import CollectorRegistry

from auth_billing.metrics import BillingMetrics
from auth_billing.money.billing import Billing
from auth_billing.money.billing_records import BillingStores
from auth_billing.money.settler import Settler
from tests.auth_billing.workload import NOW, PART_PRICES
from tests.fakes.billing_stores import price_book


@pytest.fixture
def billing(stores: BillingStores) -> Billing:
    return Billing(stores, price_book(PART_PRICES), clock=lambda: NOW)


@pytest.fixture
def settler(stores: BillingStores) -> Settler:
    return Settler(stores, BillingMetrics(CollectorRegistry()), clock=lambda: NOW)
