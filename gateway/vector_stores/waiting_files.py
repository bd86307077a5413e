"""Files that wait for an import, as one gateway has last read them: for a look the store may read all of them."""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass

from stored_objects.vector_stores.imports import VectorStoreImports
from stored_objects.vector_stores.records import VectorStoreFile

LOOK = 64
"""Most files that are read at once."""
LOOK_TIME = 2.0
"""Seconds for which the files that one look has found, or that it has found none, are taken for all."""


@dataclass(frozen=True)
class _Look:
    files: deque[VectorStoreFile]
    is_full: bool
    """Whether there may be more files than were read."""
    until: float


class WaitingFiles:
    """Claims files for the process `runner`, the oldest first, by few looks into the store.

    A file that another gateway has added or given back since the last look is found after `LOOK_TIME`.
    """

    def __init__(
        self, imports: VectorStoreImports, runner: str, *, monotonic: Callable[[], float] = time.monotonic
    ) -> None:
        self._imports = imports
        self._runner = runner
        self._monotonic = monotonic
        self._looks: dict[frozenset[str], _Look] = {}
        """The last look for each set of organisations that were passed over."""

    async def claim(self, passed_over: frozenset[str]) -> VectorStoreFile | None:
        """Claim a file that is not of the organisations `passed_over`, and return it; `None` if there is none.

        Raises:
            StoreUnavailable: the store does not answer.
        """
        while True:
            look = self._looks.get(passed_over)
            if look is None or self._monotonic() >= look.until or (look.is_full and not look.files):
                look = await self._look(passed_over)
            if not look.files:
                return None
            if (claimed := await self._imports.claim(look.files.popleft(), self._runner)) is not None:
                return claimed

    def forget(self) -> None:
        """Look again before the next claim."""
        self._looks.clear()

    async def _look(self, passed_over: frozenset[str]) -> _Look:
        files = await self._imports.waiting(LOOK, passed_over)
        now = self._monotonic()
        look = _Look(deque(files), len(files) == LOOK, now + LOOK_TIME)
        self._looks = {names: each for names, each in self._looks.items() if now < each.until}
        self._looks[passed_over] = look
        return look
