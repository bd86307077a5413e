"""Groups queued inputs of embedding and score requests into batches: within a token budget, of similar lengths.

Requests take turns at choosing a batch's longest input, so a small request never waits for all of a large one; the
rest of the batch comes from all requests, oldest first. Must not import torch.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass

MAX_PADDING = 0.125
"""Largest share of padding in a batch with more than `FREE_PADDING` padding tokens."""
FREE_PADDING = 256
"""Padding tokens that any batch may have, because computing them takes less time than another batch."""


@dataclass(frozen=True)
class PendingInput:
    """Input `index` of a request, as token ids, waiting to be computed."""

    request: str
    index: int
    ids: list[int]


class Batcher:
    """The waiting inputs of requests; chooses which of similar length are computed together."""

    def __init__(self, max_tokens: int) -> None:
        """`max_tokens` is the size of a batch including padding; a single input may exceed it."""
        self.max_tokens = max_tokens
        self._requests: OrderedDict[str, OrderedDict[int, PendingInput]] = OrderedDict()
        """Inputs by request and index, longest first; the request whose turn it is comes first."""
        self._lengths: dict[int, OrderedDict[tuple[str, int], PendingInput]] = {}

    def __len__(self) -> int:
        """Return the number of requests with waiting inputs."""
        return len(self._requests)

    def add(self, request: str, inputs: Sequence[list[int]], *, without: Collection[int] = ()) -> None:
        """Queue the inputs of one request, each a list of token ids, except those at the indexes `without`.

        `without` lists the inputs that were computed by an earlier attempt.
        """
        pending = [PendingInput(request, index, ids) for index, ids in enumerate(inputs) if index not in without]
        pending.sort(key=lambda each: len(each.ids), reverse=True)
        self._requests[request] = OrderedDict((each.index, each) for each in pending)
        for each in pending:
            self._lengths.setdefault(len(each.ids), OrderedDict())[request, each.index] = each

    def drop(self, request: str) -> None:
        """Remove the waiting inputs of the request with the id `request`; does nothing for unknown ids."""
        for each in list(self._requests.get(request, {}).values()):
            self._remove(each)

    def waits(self, request: str) -> bool:
        """Return whether the request with the id `request` has inputs that are in no batch yet."""
        return request in self._requests

    def next_batch(self) -> list[PendingInput]:
        """Remove the next batch's inputs from the queue and return them, longest first; empty if none waits."""
        if not self._requests:
            return []
        request, waiting = next(iter(self._requests.items()))
        self._requests.move_to_end(request)
        longest = next(iter(waiting.values()))
        self._remove(longest)
        batch, width, tokens = [longest], len(longest.ids), len(longest.ids)
        for each in self._no_longer_than(width):
            size = (len(batch) + 1) * width
            padding = size - tokens - len(each.ids)
            if size > self.max_tokens or padding > max(FREE_PADDING, MAX_PADDING * size):
                break
            batch.append(each)
            tokens += len(each.ids)
        for each in batch[1:]:
            self._remove(each)
        return batch

    def _no_longer_than(self, width: int) -> Iterator[PendingInput]:
        for length in sorted((length for length in self._lengths if length <= width), reverse=True):
            yield from self._lengths[length].values()

    def _remove(self, pending: PendingInput) -> None:
        waiting, length = self._requests[pending.request], len(pending.ids)
        del waiting[pending.index], self._lengths[length][pending.request, pending.index]
        if not waiting:
            del self._requests[pending.request]
        if not self._lengths[length]:
            del self._lengths[length]
