# SPDX-License-Identifier: GPL-2.0-only
"""Server process of the embedded store, run by the Python of the store's own virtual environment.

The program `secantusd-py --auth` needs a user that was created while it ran without authentication. This server creates
the user, or changes its password, before it listens. Arguments: user, password file, options of `secantusd-py`.

Nothing else of ours runs in the store's process (docs/adr/0005), so only this file has the store's licence.
"""

from __future__ import annotations

import sys
from pathlib import Path

from secantus import cli  # type: ignore[import-not-found]
from secantus.auth import derive_credentials  # type: ignore[import-not-found]

_MECHANISM = "SCRAM-SHA-256"


class _Server(cli.SecantusDBServer):  # type: ignore[misc]
    user, password = "", ""

    def start(self) -> None:
        """Create the store's user, or replace its password, then start to listen."""
        record = {
            "_id": f"admin.{self.user}",
            "user": self.user,
            "db": "admin",
            "credentials": derive_credentials(self.password, mechanism=_MECHANISM, username=self.user).to_doc(),
            "roles": [{"role": "root", "db": "admin"}],
            "mechanisms": [_MECHANISM],
        }
        self.storage.add_user("admin", self.user, record, replace=True)
        super().start()


if __name__ == "__main__":
    _Server.user, _Server.password = sys.argv[1], Path(sys.argv[2]).read_text().strip()
    cli.SecantusDBServer = _Server
    sys.exit(cli.main(sys.argv[3:]))
