"""The embedded store as a child process: SecantusDB, a separate program that speaks MongoDB's wire protocol.

It is accessed only by `motor` in the `store/` folders. It has a write-ahead log: a write with `j: true` is acknowledged
after `fsync`. Other writes are synced within some tenths of a second; if the program is killed before, they are lost.
`--sync-on-commit` (every write synced) is not used: the balance and ledger stores request the journal themselves.
"""

from __future__ import annotations

import atexit
import os
import signal
import socket
import struct
import subprocess
import time
from pathlib import Path

import psutil

from infra.home.process_records import ProcessRecords
from runtime.lifecycle import StartupError

PROGRAM = Path("store-venv") / "bin" / "secantusd-py"
"""Path of the program below the home, as `make setup` installs it."""

NAME = "store"
"""Process name in launchers."""

_HELLO = b"\x10hello\x00\x01\x00\x00\x00" + b"\x02$db\x00\x06\x00\x00\x00admin\x00"
_ANSWER_TIMEOUT = 2.0
_STOP_TIMEOUT = 30.0
_POLL = 0.05


class StoreNotInstalled(StartupError):
    """Raised when the store program is missing."""


class StoreFailed(StartupError):
    """Raised when the store program ended or did not answer before the timeout."""


class EmbeddedStore:
    """Runs one SecantusDB store as a child process, below `home`: data in `store/`, log in `log/store.log`.

    Args:
        home: `.headrace/`.
        port: a free loopback port.
        program: the store program; by default the one that `make setup` put into the home.
        start_timeout: timeout of `start`, in seconds (after a crash it replays its log first).
    """

    def __init__(self, home: Path, port: int, *, program: Path | None = None, start_timeout: float = 60.0) -> None:
        self._home = home.resolve()
        self._program = program or self._home / PROGRAM
        self._start_timeout = start_timeout
        self._process: subprocess.Popen[bytes] | None = None
        self.port = port

    @property
    def url(self) -> str:
        """MongoDB URL for clients."""
        return _url(self.port)

    @property
    def pid(self) -> int | None:
        """Process id of the store program while it runs, else `None`."""
        return self._process.pid if self._process is not None and self._process.poll() is None else None

    @property
    def log_path(self) -> Path:
        """Path of the program's log."""
        return self._home / "log" / "store.log"

    def command(self) -> list[str]:
        """Return the command line that runs the store program, for a process supervisor.

        Raises:
            StoreNotInstalled: the program is missing.
        """
        if not os.access(self._program, os.X_OK):
            raise StoreNotInstalled(
                f"the store program is not at {self._program}: run `make setup`, or set HEADRACE_MONGODB_URL"
            )
        data = self._home / "store"
        data.mkdir(mode=0o700, parents=True, exist_ok=True)
        configuration = data / "headrace.toml"
        configuration.touch()  # empty: without one it searches the current folder, ~ and /etc
        argv = [str(self._program), "--host", "127.0.0.1", "--port", str(self.port), "--storage-path", str(data)]
        # Standalone: without an oplog for replicas, which doubles the cost of a write.
        return [*argv, "--config", str(configuration), "--log-level", "WARNING", "--standalone"]

    def start(self) -> None:
        """Start the program and wait until it answers; first stop one that a killed launcher left running.

        Raises:
            StoreNotInstalled: the program is missing.
            StoreFailed: it did not start; the message names the log.
        """
        argv = self.command()
        self._end_leftover()
        self.log_path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        atexit.register(self.kill)
        with self.log_path.open("ab") as log:
            # A separate session: Ctrl-C reaches only the launcher, which stops the store after its clients.
            self._process = subprocess.Popen(
                argv, stdin=subprocess.DEVNULL, stdout=log, stderr=log, start_new_session=True
            )
        self._pid_path.write_text(str(self._process.pid))
        try:
            self._wait_until_it_answers(self._process)
        except BaseException:
            self.kill()
            raise

    def stop(self) -> None:
        """Stop the store gracefully, with a checkpoint; kill it after a timeout (its log has all data)."""
        self._end(signal.SIGTERM)

    def kill(self) -> None:
        """Kill the store program (SIGKILL), as a crash would. `start` restores its data."""
        self._end(signal.SIGKILL)

    @property
    def _pid_path(self) -> Path:
        return self._home / "store" / "embedded.pid"

    def _end(self, number: signal.Signals) -> None:
        process, self._process = self._process, None
        if process is None:
            return
        atexit.unregister(self.kill)
        process.send_signal(number)
        try:
            process.wait(_STOP_TIMEOUT)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
        self._pid_path.unlink(missing_ok=True)

    def _end_leftover(self) -> None:
        try:
            process = psutil.Process(int(self._pid_path.read_text()))
            if str(self._home / "store") not in process.cmdline():
                return  # the pid was reused
            process.terminate()
            process.wait(_STOP_TIMEOUT)
        except (FileNotFoundError, ValueError, psutil.NoSuchProcess):
            return

    def _wait_until_it_answers(self, process: subprocess.Popen[bytes]) -> None:
        until = time.monotonic() + self._start_timeout
        while not answers(self.port):
            if process.poll() is not None:
                raise StoreFailed(f"the store program ended with status {process.returncode}: see {self.log_path}")
            if time.monotonic() > until:
                raise StoreFailed(f"the store did not answer in {self._start_timeout:g} s: see {self.log_path}")
            time.sleep(_POLL)


def running_store_url(records: ProcessRecords) -> str | None:
    """Return the MongoDB URL of the store that a launcher with these process records runs; `None` if there is none."""
    process = next((record.process() for record in records.all() if record.name == NAME), None)
    if process is None:
        return None
    argv = process.cmdline()
    return _url(int(argv[argv.index("--port") + 1])) if "--port" in argv else None


def answers(port: int) -> bool:
    """Whether a loopback port answers MongoDB's `hello`."""
    try:
        with socket.create_connection(("127.0.0.1", port), timeout=_ANSWER_TIMEOUT) as connection:
            connection.sendall(_hello())
            return len(connection.recv(16)) == 16
    except OSError:
        return False


def _url(port: int) -> str:
    return f"mongodb://127.0.0.1:{port}/headrace?directConnection=true"


def _hello() -> bytes:
    """`{hello: 1, $db: "admin"}` as an OP_MSG (MongoDB wire protocol: header, flags, section 0, document)."""
    document = struct.pack("<i", 4 + len(_HELLO) + 1) + _HELLO + b"\x00"
    body = struct.pack("<ib", 0, 0) + document
    return struct.pack("<iiii", 16 + len(body), 1, 0, 2013) + body
