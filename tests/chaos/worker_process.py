"""The worker of chaos runs: `python -m tests.chaos.worker_process`, the product's worker with the counting engine.

Configured as any worker, by `HEADRACE_...`; `CHAOS_STEP_SECONDS` and `CHAOS_COUNTS` (a folder) are for the engine.
Only the model is replaced: the text side's model files, and the engine process's target.
"""

from __future__ import annotations

import os
from functools import partial
from pathlib import Path

from inference_worker import __main__ as program
from inference_worker.engine import engine_main
from inference_worker.model_files.model_source import ModelSource
from inference_worker.settings import WorkerSettings
from router.messages import Task
from tests.chaos import counting_engine
from tests.fakes.counting_text import counting_text


def counting_target(settings: WorkerSettings) -> engine_main.Target:
    """What the engine's process runs."""
    log = Path(os.environ["CHAOS_COUNTS"]) / f"{settings.id}-{os.getpid()}.jsonl"
    return partial(counting_engine.run, step_seconds=float(os.environ["CHAOS_STEP_SECONDS"]), log=log)


def main() -> None:
    """Run the worker."""
    source = ModelSource("safetensors", Path("counting"), "counting", Task.GENERATE)
    program._read_model = lambda settings: (source, counting_text())
    program._engine_target = counting_target
    program.main()


if __name__ == "__main__":
    main()
