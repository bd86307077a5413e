"""Hashes and verifies passwords with argon2id, on a bounded number of threads.

A verification costs about 30 ms and 19 MiB by design (OWASP's minimum: m = 19 MiB, t = 2, p = 1). Two threads do the
work and the queue is bounded, so that sign-ins cannot stall the gateway. Passwords are normalised to NFKC, so that two
keyboards produce the same bytes; a text longer than `MAX_LENGTH` is rejected without hashing.
"""

from __future__ import annotations

import asyncio
import threading
import unicodedata
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import TypeVar

import argon2
from argon2.exceptions import InvalidHashError, VerificationError

from auth_billing.errors import PasswordsBusy, UnacceptableValue

MIN_LENGTH = 10
MAX_LENGTH = 1024
THREADS = 2
MAX_PENDING = 32
"""Hash operations that may run or wait: about half a second of work."""

T = TypeVar("T")


def owasp_hasher() -> argon2.PasswordHasher:
    """Return an argon2id password hasher with OWASP's minimum parameters."""
    return argon2.PasswordHasher(time_cost=2, memory_cost=19 * 1024, parallelism=1)


class Passwords:
    """Hashes and verifies passwords.

    Args:
        hasher: argon2id with its parameters; hashes with weaker ones are replaced at the next sign-in.
        pending: hash operations that may run or wait at once; more are refused (`PasswordsBusy`).
    """

    def __init__(self, hasher: argon2.PasswordHasher | None = None, *, pending: int = MAX_PENDING) -> None:
        self._hasher = hasher or owasp_hasher()
        self._pool = ThreadPoolExecutor(THREADS, thread_name_prefix="passwords")
        self._pending = threading.BoundedSemaphore(pending)
        self._dummy_hash = self._hasher.hash("unknown user")

    async def hash(self, password: str) -> str:
        """Check a new password against the rules, and return its hash, made on a thread, in argon2id's encoded form.

        Raises:
            UnacceptableValue: too short, too long, or with control characters.
            PasswordsBusy: too many operations are waiting.
        """
        prepared = _prepared(password)
        if prepared is None or len(password) < MIN_LENGTH:
            raise UnacceptableValue("password", f"A password has {MIN_LENGTH} to {MAX_LENGTH} characters.")
        if any(unicodedata.category(character) == "Cc" for character in password):
            raise UnacceptableValue("password", "A password has no control characters.")
        return await self._run(lambda: self._hasher.hash(prepared))

    async def rehash(self, stored: str, password: str) -> str:
        """Return the hash `stored`, or a new one of the verified password if the current parameters are stronger.

        The rules for new passwords are not applied.

        Raises:
            PasswordsBusy: too many operations are waiting.
        """
        prepared = _prepared(password)
        if prepared is None or not self._hasher.check_needs_rehash(stored):
            return stored
        return await self._run(lambda: self._hasher.hash(prepared))

    async def verify(self, stored: str | None, password: str) -> bool:
        """Return whether `password` matches the hash `stored`; false without a hash, after the same work.

        An unknown user, and a user without a password, have no hash.

        Raises:
            PasswordsBusy: too many operations are waiting.
        """
        prepared = _prepared(password)
        if prepared is None:
            return False
        return await self._run(lambda: self._verify(stored, prepared))

    def close(self) -> None:
        """Shut down the threads that compute password hashes; waiting operations are cancelled. Does not block."""
        self._pool.shutdown(wait=False, cancel_futures=True)

    def _verify(self, stored: str | None, prepared: bytes) -> bool:
        try:
            right = self._hasher.verify(stored or self._dummy_hash, prepared)
        except (VerificationError, InvalidHashError):
            return False
        return right and bool(stored)

    async def _run(self, work: Callable[[], T]) -> T:
        if not self._pending.acquire(blocking=False):
            raise PasswordsBusy("too many passwords are being checked")
        future = self._pool.submit(work)
        future.add_done_callback(lambda _: self._pending.release())  # when the thread is free, not the caller
        return await asyncio.wrap_future(future)


def _prepared(password: str) -> bytes | None:
    """Return the bytes to hash; `None` if the text can't be a password."""
    if len(password) > MAX_LENGTH:
        return None
    try:
        return unicodedata.normalize("NFKC", password).encode()
    except UnicodeEncodeError:
        return None
