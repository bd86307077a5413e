"""Runs the engine's pure decode batches as CUDA graphs, several steps per call; other batches run eagerly.

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
from inference_worker.engine.execution.fault_isolation import IsolatingRunner
from inference_worker.engine.sampling.graph_sampling import Uniform, stage_of
from inference_worker.engine.scheduling.limits import EngineLimits
from inference_worker.engine.sequence import Sequence

MAX_BATCH_DURATION = 0.009
"""Longest time in seconds, roughly, of a batch of several steps."""
NEW_WEIGHT = 0.2
"""Weight of the newest measurement in the moving average of a step's time."""


class GraphRunner:
    """A `Runner` that runs pure decode batches as CUDA graphs, and other batches by a wrapped `IsolatingRunner`."""

    def __init__(self, eager: IsolatingRunner, limits: EngineLimits, capture: Capture, uniform: Uniform) -> None:
        self._eager = eager
        runner = eager.runner
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
        """Padded batch sizes (numbers of sequences) for which decode steps are captured, ascending."""
        return self._graphs.sizes

    def execute(self, batch: Batch) -> StepResult:
        """Compute one step of `batch` and return its result; of a batch that only decodes, up to `batch.steps` steps.

        Fewer steps are computed if steps are slow, so that new requests start soon.
        """
        sequences = [entry.sequence for entry in batch.entries]
        decodes = bool(sequences) and all(entry.count == 1 and entry.sample_count == 1 for entry in batch.entries)
        stage = stage_of(sequences) if decodes else None
        if stage is None:
            return self._eager.execute(batch)
        self._eager.runner.copy_blocks(batch.copies)
        tokens = self._run_steps(sequences, self._graphs.key(len(sequences), stage), batch.steps)
        return StepResult(tokens.T.tolist(), [None] * len(sequences))

    @torch.inference_mode()
    def _run_steps(self, sequences: list[Sequence], key: GraphKey, max_steps: int) -> npt.NDArray[np.int64]:
        """Run several steps and return the sampled tokens, [steps, sequences]."""
        started = time.perf_counter()
        rows = self._rows.update(sequences)
        steps = self._step_count(key, max_steps)
        self._graphs.restart()
        for _ in range(steps):
            self._graphs.replay(key)
        sampled: npt.NDArray[np.int64] = self._graphs.sampled[:steps].cpu().numpy()  # waits for the device
        self._rows.advance_host(rows, steps)
        self._record_time(key, (time.perf_counter() - started) / steps)
        return sampled[:, rows]

    def _step_count(self, key: GraphKey, max_steps: int) -> int:
        if key not in self._seconds:
            return 1
        return max(1, min(max_steps, int(MAX_BATCH_DURATION / self._seconds[key])))

    def _record_time(self, key: GraphKey, seconds: float) -> None:
        self._seconds[key] = NEW_WEIGHT * seconds + (1 - NEW_WEIGHT) * self._seconds.get(key, seconds)
