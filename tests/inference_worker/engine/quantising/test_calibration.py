"""Tests of calibration: moments are those of the whole model, with the weights that rounding has returned so far."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest
import torch
from torch import Tensor, nn
from transformers import PreTrainedModel

from inference_worker.engine.quantising.calibration import CALIBRATION_TEXT, calibrate
from inference_worker.engine.quantising.gptq_rounding import InputMoments
from inference_worker.engine.quantising.teacher_forcing import PASSAGE
from inference_worker.errors import UnsupportedModel
from tests.fakes.quantised_models import WIDE
from tests.fakes.tiny_models import save_tiny

ROOT = Path(__file__).parents[4]
IDS = [number * 37 % 97 for number in range(300)]
LENGTH = 128
"""Window of a model whose context has as many positions."""


def tiny(folder: Path, model_type: str = "llama") -> PreTrainedModel:
    return save_tiny(folder / "model", model_type, **WIDE, num_hidden_layers=2)


def matrices(model: PreTrainedModel) -> dict[str, nn.Linear]:
    return {
        f"{name}.weight": module
        for name, module in model.named_modules()
        if isinstance(module, nn.Linear) and name != "lm_head"
    }


@torch.inference_mode()
def true_moments(model: PreTrainedModel) -> dict[str, Tensor]:
    """The moments of all inputs, of the model run as a whole."""
    found: dict[str, Tensor] = {}

    def record(name: str) -> Callable[[nn.Module, tuple[Tensor]], None]:
        def hook(_: nn.Module, inputs: tuple[Tensor]) -> None:
            rows = inputs[0].flatten(0, -2)
            found[name] = rows.T @ rows / len(rows)

        return hook

    hooks = [module.register_forward_pre_hook(record(name)) for name, module in matrices(model).items()]
    model(torch.tensor(IDS[: 2 * LENGTH]).view(2, LENGTH))
    for hook in hooks:
        hook.remove()
    return found


def calibrated(model: PreTrainedModel, change: Callable[[str, Tensor], Tensor]) -> dict[str, InputMoments]:
    weights = {name: module.weight.detach().clone() for name, module in matrices(model).items()}
    found: dict[str, InputMoments] = {}

    def round_matrix(name: str, moments: InputMoments) -> Tensor:
        found[name] = moments
        return change(name, weights[name])

    calibrate(model, weights.keys(), IDS, round_matrix)
    return found


@pytest.mark.parametrize("model_type", ["llama", "qwen3", "gemma3_text"])
def test_moments_are_those_of_the_whole_model(tmp_path: Path, model_type: str) -> None:
    model = tiny(tmp_path, model_type)
    expected = true_moments(model)
    found = calibrated(model, lambda _, weight: weight)
    assert found.keys() == expected.keys()
    for name, moments in found.items():
        torch.testing.assert_close(moments.matrix, InputMoments(expected[name]).matrix, rtol=1e-3, atol=1e-5)


def test_later_inputs_are_computed_with_the_rounded_weights(tmp_path: Path) -> None:
    changed = "model.layers.0.self_attn.v_proj.weight"
    found = calibrated(tiny(tmp_path), lambda name, weight: weight * 0.5 if name == changed else weight)
    model = tiny(tmp_path)
    before = true_moments(model)
    with torch.no_grad():
        matrices(model)[changed].weight.mul_(0.5)
    expected = true_moments(model)
    for name, moments in found.items():
        torch.testing.assert_close(moments.matrix, InputMoments(expected[name]).matrix, rtol=1e-3, atol=1e-5)
    later = "model.layers.0.self_attn.o_proj.weight"
    assert not torch.allclose(found[later].matrix, InputMoments(before[later]).matrix, rtol=0.1)


def test_matrices_with_the_same_inputs_share_moments(tmp_path: Path) -> None:
    found = calibrated(tiny(tmp_path), lambda _, weight: weight)
    layer = "model.layers.1"
    attention = {id(found[f"{layer}.self_attn.{name}_proj.weight"]) for name in "qkv"}
    assert len(attention) == 1
    assert found[f"{layer}.mlp.gate_proj.weight"] is found[f"{layer}.mlp.up_proj.weight"]
    assert list(found)[-1] == f"{layer}.mlp.down_proj.weight"


def test_models_without_a_list_of_layers_are_refused(tmp_path: Path) -> None:
    model = tiny(tmp_path)
    model.config.num_hidden_layers = 3
    with pytest.raises(UnsupportedModel, match="no list of decoder layers"):
        calibrate(model, [], IDS, lambda *_: torch.zeros(0))


def test_the_text_has_nothing_of_the_texts_that_measure_quality() -> None:
    text = CALIBRATION_TEXT.read_text(encoding="utf-8")
    assert len(text) > 35_000
    data = [path for path in (ROOT / "benchmarks").rglob("*.jsonl") if path.is_file()]
    assert data
    records = [json.loads(line).get("text", "") for path in data for line in path.read_text().splitlines()]
    measured = "\n".join([PASSAGE.read_text(), *map(str, records)])
    assert [line for line in measured.splitlines() if len(line) > 20 and line in text] == []
