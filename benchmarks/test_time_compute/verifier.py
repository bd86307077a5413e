"""`python -m benchmarks.test_time_compute.verifier FOLDER`: trains a small verifier on a model's own answers.

The model answers training tasks several times. A linear head on its states after each step, at an inner layer, learns
whether the step's path ends right (as Math-Shepherd, with one path per step). The folder has the layers below the head
as safetensors and the head, in the layout of Skywork's process reward models, which `headrace worker` serves.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from safetensors.torch import load_file, save_file
from sklearn.metrics import roc_auc_score
from torch import Tensor
from torch.nn.functional import binary_cross_entropy_with_logits
from transformers import AutoModelForCausalLM, AutoTokenizer, GgufConfig, PreTrainedModel

from benchmarks.results import ROOT
from benchmarks.test_time_compute.methods import MAX_TOKENS
from benchmarks.test_time_compute.samples import Sampler
from benchmarks.test_time_compute.task import LANGUAGES, SEPARATOR, Family, Task
from benchmarks.test_time_compute.task_sets import SIZE, conversation, training_tasks
from inference_worker.engine_protocol import ScoreInput
from inference_worker.search.paths import merge_blank_steps, split_steps
from inference_worker.settings import EngineSettings
from inference_worker.tokenizer.tokenizer_files import read_text_files
from inference_worker.worker.scoring.answer_inputs import LineAnswers
from infra.install.models import MODEL_FILE
from router.messages import SamplingParams, ScorePrompt
from runtime import logging

DEFAULT_MODEL = ROOT / ".headrace" / "models" / MODEL_FILE
DEFAULT_VERIFIER = ROOT / ".headrace" / "models" / "step-verifier"
FAMILIES = (Family.WORD_PROBLEM, Family.EQUATION)
"""Families to train on: of 24-games the default model solves none."""
HELD_OUT = 0.2
"""Share of the training tasks that the head is tested on."""
EPSILON = 1e-6


@dataclass(frozen=True)
class Steps:
    """States after the steps of sampled answers.

    Attributes:
        states: normalised hidden states, [N, hidden].
        right: whether the path of each step ended right, 0 or 1.
        last: whether the step is the last of its answer.
        tasks: number of the task of each step.
    """

    states: Tensor
    right: Tensor
    last: Tensor
    tasks: Tensor


@dataclass(frozen=True)
class Head:
    """A linear head: the logit of a state is `weight` times it plus `bias`."""

    weight: Tensor
    bias: Tensor

    def logits(self, states: Tensor) -> Tensor:
        """Return the logits of states, [N, hidden] to [N]."""
        return states @ self.weight + self.bias


def sample_answers(model: Path, tasks: Sequence[Task], samples: int, temperature: float) -> list[list[str]]:
    """Return `samples` answers of the model to each task."""
    settings = EngineSettings(model=str(model), quantization="int8", activation_bits=8, max_model_len=1024)
    sampler = Sampler(settings)
    sampling = SamplingParams(seed=1, temperature=temperature, max_tokens=MAX_TOKENS)
    try:
        answers = sampler.sample(
            [conversation(task) for task in tasks], sampling, samples, progress("answered", len(tasks))
        )
    finally:
        sampler.close()
    return [[answer.text for answer in own] for own in answers]


def load_base(model: Path, layers: int, dtype: torch.dtype = torch.bfloat16) -> PreTrainedModel:
    """Load the first layers of a language model, a GGUF file or a folder, with a final norm of unit weights."""
    if model.is_file():
        source: dict[str, Any] = {"gguf_file": model.name, "quantization_config": GgufConfig(dequantize=True)}
        loaded = AutoModelForCausalLM.from_pretrained(str(model.parent), dtype=dtype, **source)
    else:
        loaded = AutoModelForCausalLM.from_pretrained(str(model), dtype=dtype)
    base: Any = loaded.model
    base.layers = base.layers[:layers]
    loaded.config.num_hidden_layers = layers
    base.norm.weight.data.fill_(1.0)
    return loaded.eval().requires_grad_(False)


def step_states(base: PreTrainedModel, inputs: AnswerReader, tasks: Sequence[Task], answers: list[list[str]]) -> Steps:
    """Compute the states after each step of the answers."""
    states: list[Tensor] = []
    right, last, numbers = list[bool](), list[bool](), list[int]()
    show = progress("read", len(tasks))
    for number, (task, own) in enumerate(zip(tasks, answers, strict=True)):
        kept = [answer for answer in own if answer.strip()]
        read = inputs.of(task, kept)
        for answer, each, found in zip(kept, read, _states(base, read), strict=True):
            states.append(found)
            right += [task.is_right(answer)] * len(each.positions)
            last += [position == each.positions[-1] for position in each.positions]
            numbers += [number] * len(each.positions)
        show(number + 1)
    return Steps(torch.cat(states), torch.tensor(right).float(), torch.tensor(last), torch.tensor(numbers))


class AnswerReader:
    """Tokenises answers as the worker of a verifier does."""

    def __init__(self, model: Path, bos_token_id: int | None) -> None:
        self._inputs = LineAnswers(read_text_files(model).tokenizer, bos_token_id)

    def of(self, task: Task, answers: Sequence[str]) -> list[ScoreInput]:
        """Return the inputs of answers to a task, with the positions after their steps."""
        steps = [
            [step.removesuffix(SEPARATOR) for step in merge_blank_steps(split_steps(answer, SEPARATOR))]
            for answer in answers
        ]
        return list(self._inputs.inputs(ScorePrompt(contexts=[conversation(task)], candidates=[*steps]), None))


@torch.inference_mode()
def _states(base: Any, inputs: Sequence[ScoreInput]) -> list[Tensor]:
    """Return the states of each input at its positions, in float32; what all begin with is computed once."""
    if not inputs:
        return []
    shared = min(_common([each.ids for each in inputs]), *(each.positions[0] for each in inputs))
    cache = base.model(torch.tensor([inputs[0].ids[:shared]]), use_cache=True).past_key_values
    cache.batch_repeat_interleave(len(inputs))
    width = max(len(each.ids) for each in inputs) - shared
    padded = torch.zeros(len(inputs), width, dtype=torch.long)
    for row, each in zip(padded, inputs, strict=True):
        row[: len(each.ids) - shared] = torch.tensor(each.ids[shared:])
    states = base.model(padded, past_key_values=cache).last_hidden_state.float()
    return [own[torch.tensor(each.positions) - shared].clone() for own, each in zip(states, inputs, strict=True)]


def _common(ids: Sequence[list[int]]) -> int:
    """Return the length of the common beginning of lists."""
    return next((i for i, tokens in enumerate(zip(*ids, strict=False)) if len(set(tokens)) > 1), min(map(len, ids)))


def train_head(steps: Steps, decay: float) -> Head:
    """Fit a logistic regression on the states, standardised, with an L2 penalty of `decay`."""
    mean, deviation = steps.states.mean(0), steps.states.std(0) + EPSILON
    inputs = (steps.states - mean) / deviation
    weight = torch.zeros(inputs.shape[1], requires_grad=True)
    bias = torch.zeros((), requires_grad=True)
    optimiser = torch.optim.LBFGS([weight, bias], max_iter=200, line_search_fn="strong_wolfe")

    def loss() -> Tensor:
        optimiser.zero_grad()
        value = binary_cross_entropy_with_logits(inputs @ weight + bias, steps.right) + decay * weight.square().sum()
        value.backward()  # type: ignore[no-untyped-call]
        return value

    optimiser.step(loss)  # type: ignore[no-untyped-call]
    own = weight.detach() / deviation
    return Head(own, bias.detach() - own @ mean)


def split(steps: Steps, seed: int) -> tuple[Steps, Steps]:
    """Return the steps of most tasks, and those of a share of `HELD_OUT`."""
    numbers = np.random.default_rng(seed).permutation(int(steps.tasks.max()) + 1)
    held_out = torch.isin(steps.tasks, torch.tensor(numbers[: int(len(numbers) * HELD_OUT)]))
    return _of(steps, ~held_out), _of(steps, held_out)


def _of(steps: Steps, chosen: Tensor) -> Steps:
    return Steps(steps.states[chosen], steps.right[chosen], steps.last[chosen], steps.tasks[chosen])


def save(folder: Path, model: Path, base: PreTrainedModel, head: Head) -> None:
    """Write the layers of `base` with the head to `folder`, and the tokenizer of `model` beside them."""
    base.save_pretrained(folder)
    source = {"gguf_file": model.name} if model.is_file() else {}
    tokenizer = AutoTokenizer.from_pretrained(str(model.parent if model.is_file() else model), **source)
    tokenizer.save_pretrained(folder)
    weights, described = folder / "model.safetensors", folder / "config.json"
    own = {"v_head.summary.weight": head.weight[None].contiguous(), "v_head.summary.bias": head.bias[None]}
    save_file(load_file(weights) | own, weights, metadata={"format": "pt"})
    config = json.loads(described.read_text())
    described.write_text(json.dumps(config | {"architectures": [architecture(config)]}, indent=2) + "\n")


def architecture(config: dict[str, Any]) -> str:
    """Return the `architectures` of a language model with a value head, such as `LlamaForPrmModel`."""
    return str(config["architectures"][0]).replace("ForCausalLM", "ForPrmModel")


def progress(what: str, total: int) -> Any:
    """Return a function that prints how many of `total` are done, at every tenth."""
    step = max(1, total // 10)

    def show(done: int) -> None:
        if done % step == 0:
            print(f"{what} {done} of {total}", flush=True)

    return show


def main(words: Sequence[str] | None = None) -> None:
    """Run `python -m benchmarks.test_time_compute.verifier`."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.test_time_compute.verifier", description=__doc__)
    parser.add_argument("folder", type=Path, nargs="?", default=DEFAULT_VERIFIER, help="folder of the verifier")
    parser.add_argument("--model", type=Path, default=DEFAULT_MODEL, help="a .gguf file or a folder with safetensors")
    parser.add_argument("--tasks", type=int, default=120, help="training tasks of each family and language")
    parser.add_argument("--samples", type=int, default=8, help="answers to each task")
    parser.add_argument("--temperature", type=float, default=0.7)
    parser.add_argument("--layers", type=int, default=16, help="layers below the head")
    parser.add_argument("--decay", type=float, default=0.03, help="L2 penalty of the head's weights")
    arguments = parser.parse_args(words)
    if arguments.tasks > SIZE:
        parser.error(f"--tasks: there are {SIZE}")
    logging.configure("benchmark", level="warning")
    tasks = [
        task for family in FAMILIES for lang in LANGUAGES for task in training_tasks(family, lang, arguments.tasks)
    ]
    answers = sample_answers(arguments.model, tasks, arguments.samples, arguments.temperature)
    base = load_base(arguments.model, arguments.layers)
    steps = step_states(base, AnswerReader(arguments.model, base.config.bos_token_id), tasks, answers)
    trained, held_out = split(steps, seed=1)
    head, last = train_head(trained, arguments.decay), held_out.last
    area = roc_auc_score(held_out.right[last], head.logits(held_out.states)[last])
    print(f"{len(steps.right)} steps; {100 * float(steps.right[steps.last].mean()):.1f} % of the answers are right")
    print(f"area under the ROC curve, of whole answers to tasks that were held out: {area:.3f}")
    save(arguments.folder, arguments.model, base, train_head(steps, arguments.decay))
    print(arguments.folder)


if __name__ == "__main__":
    main()
