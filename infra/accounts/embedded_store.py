"""Configures the embedded store, a SecantusDB server (MongoDB's wire protocol), and finds the one that is running.

It is accessed only by `motor` in the `store/` folders. It has a write-ahead log: a write with `j: true` is acknowledged
after `fsync`. Other writes are synced within some tenths of a second; if the program is killed before, they are lost.
`--sync-on-commit` (every write synced) is not used: the balance and ledger stores request the journal themselves.
Every user of the machine can connect to its port, so it requires a password (SCRAM-SHA-256), which is in the home.
"""

from __future__ import annotations

import os
import socket
import struct
from collections.abc import Mapping
from pathlib import Path

from infra.home.credentials import read_password
from infra.home.home import Home
from infra.home.process_records import ProcessRecords
from runtime.lifecycle import StartupError

PROGRAM = Path("store-venv") / "bin" / "secantusd-py"
"""Path of the program below the home, as `make setup` installs it."""

NAME = "store"
"""Process name in launchers."""

_SERVER = Path(__file__).with_name("embedded_store_server.py")

_HELLO = b"\x10hello\x00\x01\x00\x00\x00" + b"\x02$db\x00\x06\x00\x00\x00admin\x00"
_ANSWER_TIMEOUT = 2.0


class StoreNotInstalled(StartupError):
    """Raised when the store program is missing."""


class EmbeddedStore:
    """A SecantusDB store with its data in `home/store/`, which listens on the loopback port `port`.

    `program` is by default the store program that `make setup` put into the home.
    """

    def __init__(self, home: Path, port: int, *, program: Path | None = None) -> None:
        self.home = home.resolve()
        self.port = port
        self._program = program or self.home / PROGRAM

    @property
    def url(self) -> str:
        """MongoDB URL of this store for clients, with its password, which is generated at first use."""
        password = read_password(self._password_file)
        return f"mongodb://headrace:{password}@127.0.0.1:{self.port}/headrace?directConnection=true&authSource=admin"

    @property
    def _password_file(self) -> Path:
        return self.home / "secrets" / "store"

    def command(self) -> tuple[list[str], Mapping[str, str]]:
        """Create missing data folder, configuration and password.

        Return the store's command line and environment variables.

        Raises:
            StoreNotInstalled: the program is missing.
        """
        if not os.access(self._program, os.X_OK):
            raise StoreNotInstalled(
                f"the store program is not at {self._program}: "
                "run `make setup` with the same HEADRACE_HOME, or set HEADRACE_MONGODB_URL"
            )
        data = self.home / "store"
        data.mkdir(mode=0o700, parents=True, exist_ok=True)
        configuration = data / "headrace.toml"
        configuration.touch()  # empty: without one it searches the current folder, ~ and /etc
        argv = [str(self._program.with_name("python")), str(_SERVER)]
        argv += ["--host", "127.0.0.1", "--port", str(self.port), "--storage-path", str(data)]
        # Standalone: without an oplog for replicas, which doubles the cost of a write.
        argv += ["--config", str(configuration), "--log-level", "WARNING", "--standalone"]
        inherited = {name: os.environ[name] for name in ("PATH", "LANG", "TZ") if name in os.environ}  # no secrets
        return argv, {**inherited, "HEADRACE_MONGODB_PASSWORD": read_password(self._password_file)}


def running_store_url(home: Home) -> str | None:
    """Return the MongoDB URL of the embedded store that a launcher runs in `home`; `None` if none does."""
    records = ProcessRecords(home.run).all()
    process = next((record.process() for record in records if record.name == NAME), None)
    if process is None:
        return None
    argv = process.cmdline()
    return EmbeddedStore(home.path, int(argv[argv.index("--port") + 1])).url if "--port" in argv else None


def answers(port: int) -> bool:
    """Return whether a store on this loopback port answers MongoDB's `hello` within two seconds."""
    try:
        with socket.create_connection(("127.0.0.1", port), timeout=_ANSWER_TIMEOUT) as connection:
            connection.sendall(_hello())
            return len(connection.recv(16)) == 16
    except OSError:
        return False


def _hello() -> bytes:
    """`{hello: 1, $db: "admin"}` as an OP_MSG (MongoDB wire protocol: header, flags, section 0, document)."""
    document = struct.pack("<i", 4 + len(_HELLO) + 1) + _HELLO + b"\x00"
    body = struct.pack("<ib", 0, 0) + document
    return struct.pack("<iiii", 16 + len(body), 1, 0, 2013) + body
