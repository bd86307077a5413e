"""`python -m benchmarks.engine`: measures the generation engine alone, called directly, without queue and gateway.

Writes one result file per table, `engine-TABLE.json`. The measurements are in `engine_tables.py`.
"""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from dataclasses import dataclass, fields, replace
from pathlib import Path

import torch

from benchmarks.engine_tables import FULL, QUICK, TABLES, Bench
from benchmarks.report import print_result
from benchmarks.results import RESULTS, Value, make_result, write
from inference_worker.engine.engine import Engine
from inference_worker.settings import EngineSettings, default_batched_tokens, parse_choice
from infra.home import environment
from infra.home.settings import LauncherSettings
from runtime import logging


@dataclass(frozen=True)
class EngineUnderTest:
    """Builds engines with the settings of the command line. `max_num_seqs` is the largest batch measured."""

    settings: EngineSettings

    def __call__(self, **changes: object) -> Engine:
        """Build a new engine, with some settings replaced."""
        if self.settings.threads is not None:
            torch.set_num_threads(self.settings.threads)
        return Engine.from_settings(replace(self.settings, **changes))  # type: ignore[arg-type]

    def described(self, engine: Engine) -> dict[str, Value]:
        """Return the settings of the measured engine for the result file: as requested, and as `engine` chose them."""
        ready = engine.ready()
        return {
            "model": Path(self.settings.model).name,
            "threads": self.settings.threads or torch.get_num_threads(),
            "dtype": ready.dtype,
            "quantization": ready.quantization,
            "activation_bits": self.settings.activation_bits,
            "attention": ready.attention,
            "speculation": self.settings.speculation,
            "device": ready.device,
            "block_size": ready.block_size,
            "max_num_seqs": ready.max_num_seqs,
            "max_num_batched_tokens": self.settings.max_num_batched_tokens,
        }


def add_engine_arguments(parser: argparse.ArgumentParser, *, speculation: str = "off") -> None:
    """Add the command line options of the measured engine's settings to `parser`, named as those of `headrace worker`.

    Speculation is off by default: a small model's greedy answers repeat themselves, so it would flatter the result.
    """
    parser.add_argument(
        "--model", default=environment.load(LauncherSettings).model_or_default, help="as `headrace worker --model`"
    )
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--dtype", default="auto")
    parser.add_argument("--quantization", default="auto")
    parser.add_argument("--activation-bits", type=parse_choice, default="auto")
    parser.add_argument("--kv-cache-dtype", default="auto")
    parser.add_argument("--speculation", default=speculation)
    parser.add_argument("--threads", type=int, help="engine threads; default: torch's choice")
    parser.add_argument("--attention", default="auto")
    parser.add_argument("--max-num-batched-tokens", type=int, help="default: that of a worker")


def engine_under_test(arguments: argparse.Namespace, max_num_seqs: int) -> EngineUnderTest:
    """Create, from the command line's `arguments`, the factory of the engines to measure; no model is loaded yet.

    `max_num_seqs` is the largest batch that is measured.
    """
    names = [field.name for field in fields(EngineSettings)]
    options = {name: getattr(arguments, name) for name in names if name in arguments}
    options["max_num_batched_tokens"] = arguments.max_num_batched_tokens or default_batched_tokens(arguments.device)
    return EngineUnderTest(EngineSettings(**options, max_num_seqs=max_num_seqs))


def main(words: Sequence[str] | None = None) -> None:
    """Run `python -m benchmarks.engine`: measure the chosen tables of the engine, and write a result file for each."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.engine", description=__doc__)
    parser.add_argument("--table", action="append", choices=list(TABLES), help="a table; may be repeated; default: all")
    parser.add_argument("--quick", action="store_true", help="fewer sizes: minutes on two cores")
    parser.add_argument("--out", type=Path, default=RESULTS, help="folder of the result files")
    add_engine_arguments(parser)
    arguments = parser.parse_args(words)
    logging.configure("benchmark", level="warning")
    scale = QUICK if arguments.quick else FULL
    under_test = engine_under_test(arguments, max(scale.batches))
    bench = Bench(under_test, scale)
    for table in arguments.table or TABLES:
        rows = TABLES[table](bench)
        settings = {**under_test.described(bench.engine), "repeats": scale.repeats, "quick": arguments.quick}
        result = make_result(f"engine-{table}", settings, rows)
        print_result(result, write(result, arguments.out))


if __name__ == "__main__":
    main()
