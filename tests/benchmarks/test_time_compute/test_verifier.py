"""The trained verifier: what its head learns, and that a worker computes the same scores from its folder."""

from __future__ import annotations

import json
from pathlib import Path

import torch
from sklearn.metrics import roc_auc_score

from benchmarks.test_time_compute.task import Family
from benchmarks.test_time_compute.task_sets import conversation, training_tasks
from benchmarks.test_time_compute.verifier import (
    AnswerReader,
    Steps,
    load_base,
    save,
    split,
    step_states,
    train_head,
)
from inference_worker.model_files.scoring_folder import ScoringHead, read_config
from tests.fakes.tiny_scorers import save_step_model
from tests.inference_worker.scoring.scores import load

LAYERS = 1
TASKS = training_tasks(Family.EQUATION, "en", 2)
WRONG = "2x = 4\n\nAnswer: 77"


def language_model(folder: Path) -> Path:
    """A tiny Llama with positions for a conversation with examples, and two layers."""
    folder.mkdir()
    save_step_model(folder, "LlamaForPrmModel")
    described = folder / "config.json"
    fields = json.loads(described.read_text()) | {"architectures": ["LlamaForCausalLM"]}
    described.write_text(json.dumps(fields | {"max_position_embeddings": 4096}))
    return folder


async def test_a_worker_scores_steps_as_in_training(tmp_path: Path) -> None:
    model = language_model(tmp_path / "model")
    base = load_base(model, LAYERS, torch.float32)
    answers = [[task.solution, WRONG, ""] for task in TASKS]
    steps = step_states(base, AnswerReader(model, base.config.bos_token_id), TASKS, answers)
    assert steps.right.tolist() == [1, 1, 1, 0, 0] * 2
    assert steps.last.tolist() == [False, False, True, False, True] * 2
    assert steps.tasks.tolist() == [0] * 5 + [1] * 5
    head = train_head(steps, 0.01)
    save(tmp_path / "verifier", model, base, head)
    assert read_config(tmp_path / "verifier").head is ScoringHead.STEP_VALUE
    scores = await load(tmp_path / "verifier")([conversation(TASKS[1])], [TASKS[1].solution, WRONG])
    expected = head.logits(steps.states).sigmoid()[5:]
    assert torch.tensor([score for answer in scores for score in answer]).allclose(expected, atol=1e-4)


def some_steps(count: int) -> Steps:
    """Steps of which the second value of the state says whether the path ends right."""
    torch.manual_seed(3)
    states = torch.randn(count, 4) * torch.tensor([9.0, 1.0, 0.1, 1.0]) + torch.tensor([5.0, 0.0, -3.0, 0.0])
    return Steps(states, (states[:, 1] > 0).float(), torch.ones(count, dtype=torch.bool), torch.arange(count) // 5)


def test_the_head_finds_what_tells_right_paths() -> None:
    trained, held_out = split(some_steps(500), seed=1)
    assert len(held_out.right) == 100
    assert not set(trained.tasks.tolist()) & set(held_out.tasks.tolist())
    assert roc_auc_score(held_out.right, train_head(trained, 1e-3).logits(held_out.states)) > 0.97
