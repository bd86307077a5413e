"""`python -m benchmarks.quality`: measures the loss of a model's quality by quantisation and number formats.

For each variant of the default model: perplexity of a fixed text, computed as generated tokens are and as prompts; how
often its best token equals that of float32 on the same text; and the length of the common prefix of its greedy answers
to 50 prompts with those of float32. The text is that of `headrace quantize`, and the prompts are pieces of it.
"""

from __future__ import annotations

import argparse
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch

from benchmarks.engine_driver import run_batch
from benchmarks.report import print_rows
from benchmarks.results import ROOT, Row, Value, make_result, write
from benchmarks.workloads import Request
from inference_worker.engine.engine import Engine
from inference_worker.engine.quantising.teacher_forcing import (
    PASSAGE,
    WINDOWS,
    Prediction,
    predict_generated,
    predict_prompts,
    windows,
)
from inference_worker.settings import ActivationBits, EngineSettings
from inference_worker.tokenizer.tokenizer_files import read_text_files

PROMPT_ROWS = 256
"""Tokens of a step in which the text is computed as prompts."""
PROMPTS, PROMPT_TOKENS, NEW_TOKENS = 50, 32, 64


@dataclass(frozen=True)
class Variant:
    """Engine settings, under the name that the table shows."""

    name: str
    dtype: str
    quantization: str
    activation_bits: ActivationBits = "auto"


VARIANTS = (
    Variant("float32", "float32", "none"),
    Variant("bfloat16", "bfloat16", "none"),
    Variant("int8", "auto", "int8"),
    Variant("int4", "auto", "int4"),
    Variant("int4, 16-bit activations", "auto", "int4", activation_bits=16),
    Variant("int4, 8-bit activations", "auto", "int4", activation_bits=8),
)
"""The variants, compared with the first: the GGUF's own weights, dequantised."""


@dataclass(frozen=True)
class Observation:
    """The measurements of one variant."""

    generated: Prediction
    prompts: Prediction
    answers: list[list[int]]


def main() -> None:
    """Run `python -m benchmarks.quality`: measure all variants of the default model, and write `quality.json`."""
    model, threads, variants = read_command_line(__doc__)
    ids = passage(model)
    seen = {}
    for variant in variants:
        seen[variant.name] = observe(model, variant, ids)
        print_rows([row(name, seen[name], seen["float32"]) for name in seen], "quality")
    settings: dict[str, Value] = {
        "model": model.name,
        "tokens": len(ids),
        "threads": threads,
        "prompt_rows": PROMPT_ROWS,
        "prompts": PROMPTS,
        "prompt_tokens": PROMPT_TOKENS,
        "new_tokens": NEW_TOKENS,
    }
    rows = [row(name, one, seen["float32"]) for name, one in seen.items()]
    print(write(make_result("quality", settings, rows)))


def read_command_line(description: str | None) -> tuple[Path, int, list[Variant]]:
    """Read the options of a measurement of quality, and set the number of PyTorch's threads.

    Returns the default model's GGUF file, the number of threads, and the variants to measure, float32 first.
    """
    parser = argparse.ArgumentParser(description=description)
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument(
        "--only", nargs="*", help="variants to compare with float32", choices=[v.name for v in VARIANTS]
    )
    arguments = parser.parse_args()
    torch.set_num_threads(arguments.threads)
    model = next((ROOT / ".headrace" / "models").glob("SmolLM2*.gguf"))
    chosen = [v for v in VARIANTS if v is VARIANTS[0] or not arguments.only or v.name in arguments.only]
    return model, arguments.threads, chosen


def passage(model: Path) -> list[int]:
    """Return the benchmark's text as token ids in the vocabulary of the GGUF file `model`."""
    return read_text_files(model).tokenizer.encode(PASSAGE.read_text())


def build(model: Path, variant: Variant, *, sequences: int = WINDOWS, enable_prefix_caching: bool = False) -> Engine:
    """Build an engine of the model with the settings of `variant`, for at most so many `sequences` at a time."""
    return Engine.from_settings(
        EngineSettings(
            model=str(model),
            dtype=variant.dtype,
            quantization=variant.quantization,
            activation_bits=variant.activation_bits,
            max_model_len=512,
            max_num_seqs=sequences,
            num_kv_blocks=512,
            enable_prefix_caching=enable_prefix_caching,
        )
    )


def observe(model: Path, variant: Variant, ids: list[int]) -> Observation:
    """Load the model as `variant` and return what it computes: predictions of the text `ids`, and greedy answers.

    The answers continue pieces of the text.
    """
    engine = build(model, variant)
    texts = windows(ids)
    generated, prompts = predict_generated(engine, texts), predict_prompts(engine, texts, PROMPT_ROWS)
    starts = np.linspace(0, len(ids) - PROMPT_TOKENS, PROMPTS).astype(int).tolist()
    return Observation(generated, prompts, generate(engine, [ids[at : at + PROMPT_TOKENS] for at in starts]))


def generate(engine: Engine, prompts: list[list[int]]) -> list[list[int]]:
    """Answer all prompts (token ids) greedily in one batch of the engine; return each answer's `NEW_TOKENS` ids."""
    return list(run_batch(engine, [Request(ids, NEW_TOKENS) for ids in prompts]).answers.values())


def row(name: str, seen: Observation, reference: Observation) -> Row:
    """Return the result row of the variant `name`: perplexities, and its agreement with the float32 `reference`."""
    pairs = zip(seen.answers, reference.answers, strict=True)
    prefixes = [common_prefix(ours, theirs) for ours, theirs in pairs]
    return {
        "variant": name,
        "perplexity_generated": seen.generated.perplexity,
        "perplexity_prompts": seen.prompts.perplexity,
        "generated_over_float32": seen.generated.perplexity / reference.generated.perplexity,
        "prompts_over_float32": seen.prompts.perplexity / reference.prompts.perplexity,
        "same_best_token": seen.generated.agreement(reference.generated),
        "same_best_token_prompts": seen.prompts.agreement(reference.prompts),
        "greedy_prefix_mean": float(np.mean(prefixes)),
        "greedy_prefix_median": float(np.median(prefixes)),
        "greedy_all_equal": float(np.mean([prefix == NEW_TOKENS for prefix in prefixes])),
    }


def common_prefix(one: list[int], other: list[int]) -> int:
    """Return the number of tokens in the common prefix of two answers."""
    return next((i for i, (a, b) in enumerate(zip(one, other, strict=True)) if a != b), len(one))


if __name__ == "__main__":
    main()
