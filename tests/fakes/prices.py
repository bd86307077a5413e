"""Price lists in a list."""

from __future__ import annotations

from auth_billing.prices.price_book import PriceVersion
from tests.fakes.accounts import Absence
from tests.fakes.audit_log import ListAuditLogStore


class ListPriceStore:
    def __init__(self) -> None:
        self.absence = Absence()
        self.versions: list[PriceVersion] = []
        self.audit_log = ListAuditLogStore()

    async def newest(self) -> PriceVersion | None:
        self.absence.check()
        return self.versions[-1] if self.versions else None

    async def add(self, version: PriceVersion) -> bool:
        self.absence.check()
        if any(each.prices.version >= version.prices.version for each in self.versions):
            return False
        self.versions.append(version)
        return True
