"""A worker of kill tests: `python -m tests.kills.worker_process`, the product's worker with an engine of `engines.py`.

`KILLS_DRAWS=1` makes it an image worker; all else as in `tests/chaos/worker_process.py`.
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
from tests.fakes.counting_text import counting_text
from tests.kills import engines


def main() -> None:
    """Run the worker."""
    draws = bool(os.environ.get("KILLS_DRAWS"))

    def target(settings: WorkerSettings) -> engine_main.Target:
        log = Path(os.environ["CHAOS_COUNTS"]) / f"{settings.id}-{os.getpid()}.jsonl"
        return partial(engines.run, draws=draws, step_seconds=float(os.environ["CHAOS_STEP_SECONDS"]), log=log)

    task = Task.IMAGE if draws else Task.GENERATE
    source = ModelSource("safetensors", Path("counting"), "counting", task)
    program._read_model = lambda settings: (source, None if draws else counting_text())
    program._engine_target = target
    program.main()


if __name__ == "__main__":
    main()
