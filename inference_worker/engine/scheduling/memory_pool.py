"""Divides one amount of KV cache memory among the models of an engine process, by lending extents as they need them.

An extent is a run of whole KV blocks of one model. `lent_blocks.py` allocates the blocks of a model's extents.
"""

from __future__ import annotations

from abc import ABC, abstractmethod


class Borrower(ABC):
    """The side of a model to which a `MemoryPool` lends extents of `extent_bytes` bytes each."""

    def __init__(self, extent_bytes: int, guaranteed: int, most: int) -> None:
        """No other model can borrow this one's `guaranteed` extents; it never borrows over `most`."""
        self.extent_bytes = extent_bytes
        self.guaranteed = guaranteed
        self.most = most
        self.held = 0
        """Number of extents that are lent to this model."""

    @property
    def unmet(self) -> int:
        """Bytes of this model's guarantee that are not lent to it, and so not to others either."""
        return max(0, self.guaranteed - self.held) * self.extent_bytes

    @property
    def idle(self) -> int:
        """Number of extents that could be returned to the pool now, at most those beyond the guarantee."""
        return max(0, min(self._idle_extents(), self.held - self.guaranteed))

    @abstractmethod
    def _idle_extents(self) -> int:
        """Return the number of extents lent to this model in which no live sequence has a block."""

    @abstractmethod
    def return_extents(self, count: int) -> None:
        """Free the memory of `count` extents without live blocks, at most `idle`; what they cached is forgotten."""


class MemoryPool:
    """An amount of memory from which the engines of one process borrow. Not thread-safe.

    An engine always gets its guarantee; the rest goes to those that ask first. What is lent and idle is returned for
    another engine; what live sequences hold is not.
    """

    def __init__(self, total: int, members: int) -> None:
        """`total` is in bytes; a guarantee is at most a share of it, with one share for each of `members` models."""
        self.total = total
        self.share = total // members
        """Bytes of the largest guarantee."""
        self._borrowers: list[Borrower] = []

    def join(self, borrower: Borrower) -> None:
        """Add a model to the pool; it holds no extent yet.

        Raises:
            ValueError: its guarantee exceeds a share of the pool.
        """
        if borrower.guaranteed * borrower.extent_bytes > self.share:
            raise ValueError(f"a guarantee of over {self.share} bytes")
        self._borrowers.append(borrower)

    @property
    def lent(self) -> int:
        """Bytes that are lent to all models together."""
        return sum(each.held * each.extent_bytes for each in self._borrowers)

    def limit(self, borrower: Borrower) -> int:
        """Return how many extents this model can have at most, when others have only what they are guaranteed."""
        promised = sum(each.guaranteed * each.extent_bytes for each in self._borrowers if each is not borrower)
        return min(borrower.most, (self.total - promised) // borrower.extent_bytes)

    def spare(self, borrower: Borrower) -> int:
        """Return how many more extents this model could borrow without others returning any."""
        return min(borrower.most - borrower.held, self._free_for(borrower) // borrower.extent_bytes)

    def obtainable(self, borrower: Borrower) -> int:
        """Return how many more extents this model could borrow if others return all that are idle."""
        idle = sum(each.idle * each.extent_bytes for each in self._borrowers if each is not borrower)
        return min(borrower.most - borrower.held, (self._free_for(borrower) + idle) // borrower.extent_bytes)

    def lend(self, borrower: Borrower, count: int) -> None:
        """Lend `count` more extents to a model, at most `obtainable`; others return what is missing for them."""
        missing = count * borrower.extent_bytes - self._free_for(borrower)
        for each in self._borrowers:
            if missing > 0 and each is not borrower:
                returned = min(each.idle, -(-missing // each.extent_bytes))
                each.return_extents(returned)
                missing -= returned * each.extent_bytes
        borrower.held += count

    def _free_for(self, borrower: Borrower) -> int:
        """Return the bytes that are neither lent nor kept for the guarantees of other models."""
        return self.total - self.lent - sum(each.unmet for each in self._borrowers if each is not borrower)
