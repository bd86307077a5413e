"""A `Runner` that computes pure decode batches with CUDA graphs, several steps per call; other batches run eagerly.

The scheduler allocates blocks for a number of steps; how many are run is decided here, by the time that a step takes:
few enough that new requests start soon, and enough that the host's overhead per step is small.
"""

from __future__ import annotations

import time

import numpy as np
import numpy.typing as npt
import torch

from inference_worker.engine.batch import Batch, StepResult
from inference_worker.engine.execution.decode_graphs import Capture, DecodeGraphs, GraphKey
from inference_worker.engine.execution.decode_rows import DecodeRows
from inference_worker.engine.execution.isolation import IsolatingRunner
from inference_worker.engine.sampling.captured import Uniform, stage_of
from inference_worker.engine.scheduling.limits import EngineLimits
from inference_worker.engine.sequence import Sequence

VISIT_SECONDS = 0.009
"""Longest time in seconds, roughly, of a batch of several steps."""
NEWEST = 0.2
"""Weight of the newest measurement in the moving average of a step's time."""


class CapturedRunner:
    """Runs decode batches as CUDA graphs, and other batches by the runner it wraps, whose model and cache it shares."""

    def __init__(self, other: IsolatingRunner, limits: EngineLimits, capture: Capture, uniform: Uniform) -> None:
        self._other = other
        runner = other.runner
        blocks = -(-limits.max_model_len // runner.attention.cache.shape.block_size)
        with torch.inference_mode():
            self._rows = DecodeRows(limits.max_num_seqs, blocks, runner.device)
            self._graphs = DecodeGraphs(
                runner.model, runner.attention, self._rows, steps=limits.max_decode_steps, uniform=uniform
            )
            self._graphs.capture(capture)
        self._seconds: dict[GraphKey, float] = {}

    @property
    def sizes(self) -> list[int]:
        """Batch sizes that steps are captured for."""
        return self._graphs.sizes

    def execute(self, batch: Batch) -> StepResult:
        """Compute one step, or up to `batch.steps` steps of a pure decode batch."""
        sequences = [entry.sequence for entry in batch.entries]
        decodes = bool(sequences) and all(entry.count == 1 and entry.draws == 1 for entry in batch.entries)
        stage = stage_of(sequences) if decodes else None
        if stage is None:
            return self._other.execute(batch)
        self._other.runner.copy_blocks(batch.copies)
        tokens = self._visit(sequences, self._graphs.key(len(sequences), stage), batch.steps)
        return StepResult(tokens.T.tolist(), [None] * len(sequences))

    @torch.inference_mode()
    def _visit(self, sequences: list[Sequence], key: GraphKey, granted: int) -> npt.NDArray[np.int64]:
        """Run several steps and return the sampled tokens, [steps, sequences]."""
        started = time.perf_counter()
        rows = self._rows.place(sequences)
        steps = self._steps(key, granted)
        self._graphs.restart()
        for _ in range(steps):
            self._graphs.replay(key)
        drawn: npt.NDArray[np.int64] = self._graphs.drawn[:steps].cpu().numpy()  # waits for the device
        self._rows.moved_on(rows, steps)
        self._learn(key, (time.perf_counter() - started) / steps)
        return drawn[:, rows]

    def _steps(self, key: GraphKey, granted: int) -> int:
        if key not in self._seconds:
            return 1
        return max(1, min(granted, int(VISIT_SECONDS / self._seconds[key])))

    def _learn(self, key: GraphKey, seconds: float) -> None:
        self._seconds[key] = NEWEST * seconds + (1 - NEWEST) * self._seconds.get(key, seconds)
