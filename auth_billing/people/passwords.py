"""Passwords: argon2id, and how much of the machine it may take. Knows no user.

A check costs about 30 ms and 19 MiB on purpose (OWASP's least: m = 19 MiB, t = 2, p = 1), so checks run in two threads,
and only so many may wait: logging in is no way to stop the gateway. Passwords are compared in NFKC, so that two
keyboards type the same one; a longer text than `MAX_LENGTH` is no password and is not hashed.
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
"""Being checked or waiting: about half a second's work."""

T = TypeVar("T")


def owasp_hasher() -> argon2.PasswordHasher:
    """What passwords are hashed with."""
    return argon2.PasswordHasher(time_cost=2, memory_cost=19 * 1024, parallelism=1)


class Passwords:
    """Hashes and checks passwords.

    Args:
        hasher: argon2id with its parameters; hashes with weaker ones are replaced at the next login.
        pending: how many checks may run and wait; one more is refused.
    """

    def __init__(self, hasher: argon2.PasswordHasher | None = None, *, pending: int = MAX_PENDING) -> None:
        self._hasher = hasher or owasp_hasher()
        self._pool = ThreadPoolExecutor(THREADS, thread_name_prefix="passwords")
        self._places = threading.BoundedSemaphore(pending)
        self._nobodys = self._hasher.hash("nobody's")

    async def hash(self, password: str) -> str:
        """What is stored of a new password: argon2id's own text.

        Raises:
            UnacceptableValue: too short, too long, or with characters that can't be typed.
            PasswordsBusy: too many checks are waiting.
        """
        prepared = _prepared(password)
        if prepared is None or len(password) < MIN_LENGTH:
            raise UnacceptableValue("password", f"A password has {MIN_LENGTH} to {MAX_LENGTH} characters.")
        if any(unicodedata.category(character) == "Cc" for character in password):
            raise UnacceptableValue("password", "A password has no control characters.")
        return await self._run(lambda: self._hasher.hash(prepared))

    async def rehash(self, stored: str, password: str) -> str:
        """The same password under today's parameters, if `stored` has weaker ones; else `stored`.

        `password` has just been verified, whatever is asked of new ones today.

        Raises:
            PasswordsBusy: too many checks are waiting.
        """
        prepared = _prepared(password)
        if prepared is None or not self._hasher.check_needs_rehash(stored):
            return stored
        return await self._run(lambda: self._hasher.hash(prepared))

    async def verify(self, stored: str | None, password: str) -> bool:
        """Whether `password` is what `stored` was made of. With `None` (nobody) it is never, after the same work.

        Raises:
            PasswordsBusy: too many checks are waiting.
        """
        prepared = _prepared(password)
        if prepared is None:
            return False
        return await self._run(lambda: self._verify(stored, prepared))

    def close(self) -> None:
        """Let the threads go."""
        self._pool.shutdown(wait=False, cancel_futures=True)

    def _verify(self, stored: str | None, prepared: bytes) -> bool:
        try:
            right = self._hasher.verify(stored or self._nobodys, prepared)
        except (VerificationError, InvalidHashError):
            return False
        return right and stored is not None

    async def _run(self, work: Callable[[], T]) -> T:
        if not self._places.acquire(blocking=False):
            raise PasswordsBusy("too many passwords are being checked")
        future = self._pool.submit(work)
        future.add_done_callback(lambda _: self._places.release())  # when the thread is free, whoever still waits
        return await asyncio.wrap_future(future)


def _prepared(password: str) -> bytes | None:
    """The bytes that are hashed; `None`: this is nobody's password."""
    if len(password) > MAX_LENGTH:
        return None
    try:
        return unicodedata.normalize("NFKC", password).encode()
    except UnicodeEncodeError:
        return None
