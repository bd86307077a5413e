"""Captures whole decode steps, sampling included, as CUDA graphs, and replays them without host work between tokens.

A graph has all its sizes and numbers baked in, so there is one for each padded batch size and each stage of sampling.
Everything else that it depends on is fixed for the process (block size, width of the block tables, the attention's
splits, which follow from the number of rows) or lies on the device and may change: tokens, positions, block tables,
parameters. Idle rows store nothing, attend to nothing and do not advance.

Graphs are captured when the engine starts, never while it serves.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor

from inference_worker.engine.attention_backend import AttentionBackend, AttentionMetadata, StepAttention
from inference_worker.engine.causal_lm import CausalLM
from inference_worker.engine.execution.decode_rows import IDLE, POSITION, TOKEN, DecodeRows
from inference_worker.engine.sampling.graph_sampling import Stage, Uniform, sample

Work = Callable[[], None]
Capture = Callable[[Work], Work]
"""A function that captures some work, running it any number of times, and returns a function that replays it."""

SIZES = (1, 2, 4, 8, 16, 32, 48, 64, 96, 128, 192, 256, 384, 512, 768, 1024, 1536, 2048, 3072, 4096)


@dataclass(frozen=True)
class GraphKey:
    """The numbers in which captured steps differ: the padded batch size and the stage of sampling."""

    rows: int
    stage: Stage


class DecodeGraphs:
    """The captured decode steps of one model over `DecodeRows`, for up to the rows' capacity of sequences.

    Attributes:
        sampled: [steps, capacity] int64: the tokens sampled since `restart`, one row per step.
    """

    def __init__(
        self, model: CausalLM, attention: AttentionBackend, rows: DecodeRows, *, steps: int, uniform: Uniform
    ) -> None:
        self._model, self._attention, self._rows, self._uniform = model, attention, rows, uniform
        capacity = rows.tables.shape[0]
        self.sizes = [*(size for size in SIZES if size < capacity), capacity]
        self.sampled = torch.zeros((steps, capacity), dtype=torch.int64, device=rows.device)
        self._step = torch.zeros(1, dtype=torch.int64, device=rows.device)
        self._starts = torch.arange(capacity + 1, device=rows.device)
        self._captured: dict[GraphKey, Work] = {}

    def key(self, sequences: int, stage: Stage) -> GraphKey:
        """Return the key of the smallest captured decode step for `sequences` or more rows that samples as `stage`."""
        return GraphKey(self.sizes[bisect_left(self.sizes, sequences)], stage)

    def capture(self, capture: Capture) -> None:
        """Record a decode step for every batch size and sampling stage, largest size first, by the function `capture`.

        Called once, when the engine starts. All rows must be idle.
        """
        for size in reversed(self.sizes):
            for stage in Stage:
                self.restart()
                key = GraphKey(size, stage)
                self._captured[key] = capture(lambda key=key: self.step(key))  # type: ignore[misc]

    def restart(self) -> None:
        """Reset the step counter on the device: the next step writes its tokens to the first row of `sampled`."""
        self._step.zero_()

    def replay(self, key: GraphKey) -> None:
        """Run the captured decode step `key` on the device: sample a token per row, advance the rows by one position.

        The tokens are written to the next row of `sampled`.
        """
        self._captured[key]()

    def step(self, key: GraphKey) -> None:
        """Compute a decode step of the first `key.rows` rows: run the model, sample next tokens, advance the rows.

        This is the work that `capture` records and `replay` repeats.
        """
        rows, count = self._rows, key.rows
        token_ids, positions = rows.integers[TOKEN, :count], rows.integers[POSITION, :count]
        hidden = self._model.forward(
            token_ids, positions.clamp(min=0), StepAttention(self._attention, self._metadata(positions, count))
        )
        logits = self._model.logits(hidden)
        tokens = sample(logits, rows.sampling(count), key.stage, self._uniform)
        self.sampled[:, :count].index_copy_(0, self._step, tokens[None])
        self._step.add_(1)
        rows.advance(count, tokens)

    def _metadata(self, positions: Tensor, count: int) -> AttentionMetadata:
        """Return the attention metadata of rows with one query each; their length is bounded by the block tables."""
        size, tables = self._attention.cache.shape.block_size, self._rows.tables[:count]
        computed = positions.clamp(min=0)
        blocks = tables.gather(1, (computed // size)[:, None])[:, 0]
        return AttentionMetadata(
            query_start=self._starts[: count + 1],
            sequence_lengths=positions + 1,
            block_tables=tables,
            slot_mapping=torch.where(positions == IDLE, -1, blocks * size + computed % size),
            max_query_length=1,
            max_sequence_length=tables.shape[1] * size,
        )


class CudaCapture:
    """Records functions as CUDA graphs. The graphs share one memory pool because only one runs at a time."""

    def __init__(self, device: torch.device) -> None:
        self._device = device
        self._first: torch.cuda.CUDAGraph | None = None

    def __call__(self, work: Work) -> Work:
        """Run `work` twice, so that libraries and kernels are loaded, then record it."""
        stream = torch.cuda.Stream(self._device)  # type: ignore[no-untyped-call]
        stream.wait_stream(torch.cuda.current_stream(self._device))
        with torch.cuda.stream(stream):
            work()
            work()
        torch.cuda.current_stream(self._device).wait_stream(stream)
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph, pool=self._first.pool() if self._first else None):
            work()
        self._first = self._first or graph
        replay: Work = graph.replay
        return replay
