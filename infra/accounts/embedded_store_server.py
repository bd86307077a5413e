# SPDX-License-Identifier: 0BSD
"""Server process of the embedded store: runs SecantusDB with authentication as user `headrace`.

The Python of the store's own virtual environment or container runs it. `HEADRACE_MONGODB_PASSWORD` is the user's
password; arguments are options of `secantusd-py`. The user is created, or given this password, before the server
listens: over the wire, SecantusDB can create it only while it requires no authentication.

Only this file imports the store's package (GPL-2.0), and no other file of ours is loaded in its process
(docs/adr/0005), so its own licence is a permissive one that permits the combination.
"""

from __future__ import annotations

import os
import sys

from secantus import cli  # type: ignore[import-not-found]
from secantus.auth import derive_credentials  # type: ignore[import-not-found]

_USER, _PASSWORD = "headrace", "HEADRACE_MONGODB_PASSWORD"
_MECHANISM = "SCRAM-SHA-256"


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
        super().start()


if __name__ == "__main__":
    if not os.environ.get(_PASSWORD):
        sys.exit(f"{_PASSWORD} is not set")
    cli.SecantusDBServer = _Server
    sys.exit(cli.main(["--auth", *sys.argv[1:]]))
