"""Layout and lock of an installation's home directory (`HEADRACE_HOME`, by default `.headrace/`).

One launcher at a time uses a home. The lock is the kernel's (`flock`), so it is released however the process ends.
"""

from __future__ import annotations

import fcntl
import json
import os
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import psutil

from runtime.lifecycle import StartupError


@dataclass(frozen=True)
class Home:
    """Paths in the home directory of one installation."""

    path: Path

    @property
    def models(self) -> Path:
        """Directory of the installation's model files."""
        return self.path / "models"

    @property
    def run(self) -> Path:
        """Directory of process ids, process records, and the launcher's lock and socket."""
        return self.path / "run"

    @property
    def log(self) -> Path:
        """Directory of the processes' log files."""
        return self.path / "log"

    @property
    def secrets(self) -> Path:
        """Directory of the installation's secrets, which only this user can read."""
        return self.path / "secrets"

    @property
    def client_env(self) -> Path:
        """File with `OPENAI_BASE_URL` and `OPENAI_API_KEY` of the development account, for clients."""
        return self.path / "client.env"

    def prepare(self) -> None:
        """Create the home directory and its subdirectories where they are missing.

        Raises:
            StartupError: the home is not writable.
        """
        try:
            for folder in (self.path, self.run, self.log, self.secrets):
                folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        except OSError as error:
            raise StartupError(f"can't use {self.path} as HEADRACE_HOME: {error.strerror}") from error


@dataclass(frozen=True)
class LockHolder:
    """The launcher that holds a home's lock; `kind` is `serve` or `up`."""

    kind: str
    pid: int
    url: str


class HomeLocked(StartupError):
    """Raised when another launcher holds the home's lock."""

    def __init__(self, home: Home, holder: LockHolder) -> None:
        super().__init__(
            f"`headrace {holder.kind}` already runs in {home.path} (pid {holder.pid}, {holder.url}): "
            "stop it first, or choose another HEADRACE_HOME and HEADRACE_PORT"
        )
        self.holder = holder


@contextmanager
def lock_home(home: Home, holder: LockHolder) -> Iterator[None]:
    """Hold the lock of the directory `home` while the context lasts; only one launcher at a time can hold it.

    Raises:
        HomeLocked: another launcher holds it.
    """
    descriptor = os.open(home.run / "lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError as error:
            raise HomeLocked(home, _read_holder(descriptor)) from error
        os.ftruncate(descriptor, 0)
        os.pwrite(descriptor, json.dumps(vars(holder)).encode(), 0)
        yield
    finally:
        os.close(descriptor)


def lock_holder(home: Home) -> LockHolder | None:
    """Return the launcher that holds the lock of the directory `home`; `None` if no launcher runs there."""
    try:
        descriptor = os.open(home.run / "lock", os.O_RDONLY | os.O_CLOEXEC)
    except FileNotFoundError:
        return None
    try:
        fcntl.flock(descriptor, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
        return _read_holder(descriptor)
    finally:
        os.close(descriptor)
    return None


def stop_launcher(home: Home) -> str:
    """Stop the launcher that runs in `home` by SIGTERM, wait until it has ended, and return a message for the operator.

    Raises:
        StartupError: no launcher runs there.
    """
    holder = lock_holder(home)
    if holder is None or not holder.pid:
        raise StartupError(f"nothing runs in {home.path}")
    try:
        process = psutil.Process(holder.pid)
        process.terminate()
        process.wait()
    except psutil.NoSuchProcess:
        pass  # it has ended meanwhile
    return f"`headrace {holder.kind}` (pid {holder.pid}) has stopped"


def _read_holder(descriptor: int) -> LockHolder:
    try:
        return LockHolder(**json.loads(os.pread(descriptor, 4096, 0)))
    except (ValueError, TypeError):  # it holds the lock, but has not written its record yet
        return LockHolder("serve or up", 0, "starting")
