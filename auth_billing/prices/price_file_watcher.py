"""Watches the operator's price file: puts its prices in force at the start and whenever the file changes.

Without a price file, and without prices in a proxy's catalogue, the store's prices can be edited, and this process only
gives a new installation the shipped ones.

An invalid file stops the process at start; one that becomes invalid later is logged, and the prices stay in force.
"""

from __future__ import annotations

import asyncio
import contextlib
from pathlib import Path

import structlog

from auth_billing.access.roles import OPERATORS
from auth_billing.audit_log import AuditLog, Event
from auth_billing.errors import StoreUnavailable
from auth_billing.prices import price_file
from auth_billing.prices.price_book import PriceBook
from auth_billing.prices.price_file import Source
from runtime.lifecycle import StartupError

POLL_INTERVAL = 5.0
"""Seconds between reads of the file."""

_log = structlog.get_logger(__name__)


class PriceFileWatcher:
    """Puts the prices of a file, and of a proxy's catalogue if there is one, in force when the file changes.

    Args:
        path: the price file; `None`: there is none.
        audit_log: gets an entry, of the operator's organisation, for each version that is loaded.
        every: seconds between reads of the file.
    """

    def __init__(
        self,
        book: PriceBook,
        audit_log: AuditLog,
        path: Path | None,
        catalogue: Path | None = None,
        *,
        every: float = POLL_INTERVAL,
    ) -> None:
        self._book = book
        self._audit_log = audit_log
        self._has_file = path is not None
        self._paths = [path or price_file.DEFAULT_FILE, *([] if catalogue is None else [catalogue])]
        self._every = every
        self._last_read: list[Source] = []
        self._loaded: list[Source] = []

    async def load(self) -> None:
        """Read the operator's price file, put its prices in force and log that in the audit log; called at start-up.

        Raises:
            StartupError: the file can't be read or is invalid.
            StoreUnavailable: the prices may or may not be in force.
        """
        await self._put_in_force(await self._read())

    async def check(self) -> None:
        """Read the operator's price file once; put its prices in force if they changed and the read before agrees.

        Two reads that agree show that the file is not just being written.

        Raises:
            StartupError: the file can't be read or is invalid.
            StoreUnavailable: the prices may or may not be in force.
        """
        before, self._last_read = self._last_read, await self._read()
        if before == self._last_read != self._loaded:
            await self._put_in_force(self._last_read)

    async def run(self, stop: asyncio.Event) -> None:
        """Check the operator's price file every few seconds, and put changed prices in force, until `stop` is set.

        Errors are logged, and leave the prices unchanged.
        """
        said = ""
        while not stop.is_set():
            try:
                await self.check()
                said = ""
            except (StartupError, StoreUnavailable) as error:
                if str(error) != said:  # once, not every five seconds
                    said = str(error)
                    _log.error("price file not loaded, prices unchanged", reason=said)
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(stop.wait(), self._every)

    async def _put_in_force(self, sources: list[Source]) -> None:
        prices, catalogues = price_file.parse(*sources), sources[1:]
        locked = self._has_file or any(price_file.has_prices(each) for each in catalogues)
        version = await (self._book.load(prices) if locked else self._book.unlock(prices))
        files, number = [str(each.path) for each in sources], version.prices.version
        if version.prices == prices.price_list(number):
            event, details = Event.PRICES_LOADED, {"files": files}
            await self._audit_log.record_once(OPERATORS, event, str(number), version.at, details=details)
        self._loaded = sources
        for catalogue in catalogues:
            for model in price_file.unpriced(version.prices, catalogue):
                _log.warning("a provider's model has no price of its own", model=model, catalogue=str(catalogue.path))
        _log.info("prices in force", version=number, files=files if locked else [])

    async def _read(self) -> list[Source]:
        return [await asyncio.to_thread(price_file.source, path) for path in self._paths]
