# SPDX-License-Identifier: 0BSD
"""Server process of the embedded store: runs SecantusDB with authentication as user `headrace`.

The Python of the store's own virtual environment or container runs it. `HEADRACE_MONGODB_PASSWORD` is the user's
password; arguments are options of `secantusd-py`. The user is created, or given this password, before the server
listens: over the wire, SecantusDB can create it only while it requires no authentication. A write reads the
definitions of indexes once, not five times per document, which saves about 30% of the CPU time of a billed request.

Only this file imports the store's package (GPL-2.0), and no other file of ours is loaded in its process
(docs/adr/0005), so its own licence is a permissive one that permits the combination.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from datetime import datetime
from typing import Any

from secantus import cli, server, storage  # type: ignore[import-not-found]
from secantus.auth import derive_credentials  # type: ignore[import-not-found]

_USER, _PASSWORD = "headrace", "HEADRACE_MONGODB_PASSWORD"
_MECHANISM = "SCRAM-SHA-256"


class _Storage(storage.Storage):  # type: ignore[misc]
    """Storage whose writes read the definitions of a collection's indexes once per transaction, not per document.

    They are the same for the whole transaction, which reads one snapshot, unless it marks an index as multikey.
    No thread waits while it holds a read snapshot: WiredTiger would keep the old versions of all documents until it
    ends, and once a page of them is too large to be evicted, each read of it sleeps while it holds Python's lock.
    """

    def prune_ttl_all_collections(self, *, now: datetime | None = None) -> int:
        """Delete expired documents and release the snapshot in which they were found; return their number."""
        try:
            return super().prune_ttl_all_collections(now=now)  # type: ignore[no-any-return]
        finally:
            self.release_thread_snapshot()

    def _update_chunk(
        self, db: str, coll: str, recordids: list[int], query: dict[str, Any], update: Any, **options: Any
    ) -> tuple[int, int, int, list[dict[str, Any]]]:
        """Update documents that were found by `query`, after a check that they still match it, but for their ids.

        An id never changes. To compare each document's with all that the query lists takes a fifth of the time.
        """
        rest = {name: condition for name, condition in query.items() if name != "_id"}
        return super()._update_chunk(db, coll, recordids, rest, update, **options)  # type: ignore[no-any-return]

    @contextmanager
    def _batch_transaction(self, *, sync: bool = False) -> Iterator[Any]:
        """Run the block as one transaction; the definitions that it reads are forgotten at its end."""
        self._tls.indexes = {}
        try:
            with super()._batch_transaction(sync=sync) as session:
                yield session
        finally:
            self._tls.indexes = None

    def _iter_indexes(self, db: str, coll: str) -> Iterable[tuple[str, dict[str, Any], dict[str, Any]]]:
        """Return name, key and options of each index of a collection."""
        known = getattr(self._tls, "indexes", None)
        if known is None:
            return super()._iter_indexes(db, coll)  # type: ignore[no-any-return]
        if (db, coll) not in known:
            known[db, coll] = list(super()._iter_indexes(db, coll))
        return known[db, coll]  # type: ignore[no-any-return]

    def _maybe_mark_multikey(
        self, db: str, coll: str, doc: dict[str, Any], indexes: list[tuple[Any, ...]], already_multikey: set[str]
    ) -> set[str]:
        """Mark the indexes of fields in which a document has an array; return the names of all that are marked."""
        unmarked = [key for name, key, *_ in indexes if name not in already_multikey]
        if not any(storage._doc_makes_multikey(doc, key) for key in unmarked):
            return already_multikey
        self._tls.indexes = {}
        return super()._maybe_mark_multikey(db, coll, doc, indexes, already_multikey)  # type: ignore[no-any-return]


class _Server(cli.SecantusDBServer):  # type: ignore[misc]
    def start(self) -> None:
        """Create the store's user or set its password, then start to listen for clients."""
        password = os.environ.pop(_PASSWORD)
        record = {
            "_id": f"admin.{_USER}",
            "user": _USER,
            "db": "admin",
            "credentials": derive_credentials(password, mechanism=_MECHANISM, username=_USER).to_doc(),
            "roles": [{"role": "root", "db": "admin"}],
            "mechanisms": [_MECHANISM],
        }
        self.storage.add_user("admin", _USER, record, replace=True)
        self.storage.release_thread_snapshot()
        super().start()

    def _stream_awaitable_hello(self, *connection: Any) -> bool:
        """Send a driver the changes of the topology until it disconnects, without a read snapshot."""
        self.storage.release_thread_snapshot()
        return super()._stream_awaitable_hello(*connection)  # type: ignore[no-any-return]


if __name__ == "__main__":
    if not os.environ.get(_PASSWORD):
        sys.exit(f"{_PASSWORD} is not set")
    cli.SecantusDBServer, server.Storage = _Server, _Storage
    sys.exit(cli.main(["--auth", *sys.argv[1:]]))
