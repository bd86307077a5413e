"""Tests of quantised folders: matrices and logits are those of the dequantised weights, and others are refused."""

from __future__ import annotations

import json
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file, save_file
from transformers import PreTrainedModel

from inference_worker.engine.layers.native_decoder import NativeDecoder
from inference_worker.engine.loading.kernel_conversion import convert_to_kernels, load_or_describe
from inference_worker.engine.loading.model_loader import load_model, open_folder, read_config
from inference_worker.engine.native.packing import Fp8Values, Int4Values, Int8Values
from inference_worker.engine.weights.quantised_folder import QuantisedFolder
from inference_worker.errors import BadWeights, UnsupportedModel
from inference_worker.model_files.model_source import resolve
from inference_worker.settings import EngineSettings
from tests.fakes.packed_steps import packed_logits, random_sequences
from tests.fakes.quantised_models import (
    Written,
    group_config,
    save_quantised,
    write_awq,
    write_fp8,
    write_gptq,
    write_int8,
    write_packed,
)

CPU = torch.device("cpu")
GPTQ = {"quant_method": "gptq", "bits": 4, "group_size": 32}
AWQ = {"quant_method": "awq", "bits": 4, "group_size": 32, "zero_point": True, "version": "gemm"}
INT4, INT8 = group_config("pack-quantized"), group_config("pack-quantized", num_bits=8)


def in_any_order(weight: torch.Tensor) -> Written:
    return write_gptq(weight, order=torch.randperm(weight.shape[1], generator=torch.Generator().manual_seed(1)))


Layout = tuple[dict[str, Any], Callable[..., Written], type, bool]
LAYOUTS: dict[str, Layout] = {
    "packed int4": (INT4, write_packed, Int4Values, True),
    "packed int4, zero points": (INT4, partial(write_packed, symmetric=False), Int4Values, True),
    "packed int4, channels": (INT4, lambda w: write_packed(w, group=w.shape[1]), Int4Values, True),
    "packed int4, groups of 16": (INT4, partial(write_packed, group=16), Int8Values, False),
    "packed int8": (INT8, partial(write_packed, bits=8), Int8Values, True),
    "packed int8, zero points": (INT8, partial(write_packed, bits=8, symmetric=False), Int8Values, False),
    "int8": (group_config("int-quantized", num_bits=8), write_int8, Int8Values, True),
    "int8, zero points": (
        group_config("naive-quantized", num_bits=8),
        partial(write_int8, symmetric=False),
        Int8Values,
        False,
    ),
    "fp8, tensors": (group_config("float-quantized", num_bits=8, type="float"), write_fp8, Fp8Values, True),
    "fp8, channels": (
        group_config("float-quantized", num_bits=8, type="float", strategy="channel"),
        lambda w: write_fp8(w, block=(1, w.shape[1])),
        Fp8Values,
        True,
    ),
    "fp8, blocks": (
        {"quant_method": "fp8", "weight_block_size": [48, 40]},
        partial(write_fp8, block=(48, 40), scale="weight_scale_inv"),
        Int8Values,
        False,
    ),
    "gptq": (GPTQ, write_gptq, Int4Values, True),
    "gptq, version 2": (GPTQ | {"checkpoint_format": "gptq_v2"}, partial(write_gptq, version=2), Int4Values, True),
    "gptq, 2 bits": (GPTQ | {"bits": 2}, partial(write_gptq, bits=2), Int4Values, True),
    "gptq, 8 bits": (GPTQ | {"bits": 8}, partial(write_gptq, bits=8), Int8Values, False),
    "gptq, desc_act": (GPTQ | {"desc_act": True}, in_any_order, Int8Values, False),
    "awq": (AWQ, write_awq, Int4Values, True),
}


def logits_of(theirs: PreTrainedModel, ids: list[int]) -> torch.Tensor:
    with torch.inference_mode():
        expected: torch.Tensor = theirs(torch.tensor([ids])).logits[0]
    return expected


@pytest.mark.parametrize("name", LAYOUTS)
def test_logits_are_those_of_the_dequantised_weights(name: str, tmp_path: Path) -> None:
    """By PyTorch exactly, by the kernels with the error of repacking; the matrices too."""
    config, write, kind, exact = LAYOUTS[name]
    theirs = save_quantised(tmp_path, config, write)
    sequences = random_sequences(97)
    source = resolve(str(tmp_path))
    model = load_model(source, torch.float32, CPU)
    for rows, ids in zip(packed_logits(model, sequences, [40]), sequences, strict=True):
        torch.testing.assert_close(rows, logits_of(theirs, ids), atol=1e-3, rtol=1e-3)
    checkpoint = open_folder(tmp_path)
    assert isinstance(checkpoint, QuantisedFolder)
    expected = theirs.state_dict()
    matrices = {matrix: found for matrix in checkpoint.shapes() if (found := checkpoint.quantised(matrix))}
    assert len(matrices) == 4 * 7
    for matrix, values in matrices.items():
        assert type(values) is kind, matrix
        error = (values.dequantise() - expected[matrix]).norm() / expected[matrix].norm()
        assert error < (0.0005 if exact else 0.01), matrix
    settings = EngineSettings(model=str(tmp_path), quantization="auto")
    native, scheme = convert_to_kernels(load_or_describe(source, torch.float32, settings), source, settings)
    assert (type(native), scheme) == (NativeDecoder, "int4" if kind is Int4Values else "int8")
    for rows, ids in zip(packed_logits(native, sequences, [40]), sequences, strict=True):
        reference = logits_of(theirs, ids)
        assert (rows - reference).norm() / reference.norm() < 0.06


def test_models_of_other_families_are_dequantised(tmp_path: Path) -> None:
    theirs = save_quantised(tmp_path, AWQ, write_awq, model_type="phi3", num_key_value_heads=4)
    model = load_model(resolve(str(tmp_path)), torch.float32, CPU)
    (rows,) = packed_logits(model, [[5, 6, 7]], [3])
    torch.testing.assert_close(rows, logits_of(theirs, [5, 6, 7]), atol=1e-3, rtol=1e-3)


def test_biases_of_zeros_that_autogptq_wrote_are_left_out(tmp_path: Path) -> None:
    def with_bias(weight: torch.Tensor) -> Written:
        parts, values = write_gptq(weight)
        return parts | {"bias": torch.zeros(len(weight))}, values

    theirs = save_quantised(tmp_path, GPTQ, with_bias)
    (rows,) = packed_logits(load_model(resolve(str(tmp_path)), torch.float32, CPU), [[5, 6, 7]], [3])
    torch.testing.assert_close(rows, logits_of(theirs, [5, 6, 7]), atol=1e-3, rtol=1e-3)
    edit_tensors(tmp_path, {"model.layers.0.mlp.up_proj.bias": torch.ones(96)})
    with pytest.raises(BadWeights, match=r"too many, the first is model\.layers\.0\.mlp\.up_proj\.bias"):
        load_model(resolve(str(tmp_path)), torch.float32, CPU)


def edit_tensors(folder: Path, changes: dict[str, torch.Tensor | None]) -> None:
    tensors: dict[str, Any] = load_file(folder / "model.safetensors") | changes
    kept = {name: tensor for name, tensor in tensors.items() if tensor is not None}
    save_file(kept, folder / "model.safetensors", {"format": "pt"})


WEIGHTS = "quantization_config.config_groups.group_0.weights"


@pytest.mark.parametrize(
    ("config", "message"),
    [
        ({"quant_method": "bitsandbytes"}, "quantization_config.quant_method: 'bitsandbytes'"),
        (GPTQ | {"bits": 3}, "quantization_config.bits: 3 (known: 2, 4, 8)"),
        (GPTQ | {"checkpoint_format": "marlin"}, "quantization_config.checkpoint_format: 'marlin'"),
        (GPTQ | {"is_marlin_format": True}, "quantization_config.is_marlin_format: True"),
        (GPTQ | {"dynamic": {"+:.*down.*": {"bits": 8}}}, "quantization_config.dynamic: modules with other bits"),
        (AWQ | {"version": "gemv"}, "quantization_config.version: 'gemv'"),
        (AWQ | {"bits": 8}, "quantization_config.bits: 8"),
        (group_config("nvfp4-pack-quantized"), "quantization_config.format: 'nvfp4-pack-quantized'"),
        (group_config("pack-quantized", num_bits=3), f"{WEIGHTS}.num_bits: 3"),
        (group_config("float-quantized", num_bits=4, type="float"), f"{WEIGHTS}.num_bits: 4 (known: 8)"),
        (group_config("pack-quantized", strategy="tensor_group"), f"{WEIGHTS}.strategy: 'tensor_group'"),
        (group_config("pack-quantized", block_structure="2x4"), f"{WEIGHTS}.block_structure: '2x4'"),
        (INT4 | {"config_groups": {"W4A16": ["Linear"]}}, "config_groups.W4A16: a group without `weights`"),
        (INT4 | {"config_groups": []}, "quantization_config.config_groups"),
        (INT4 | {"quantization_status": "frozen"}, "quantization_config.quantization_status: 'frozen'"),
        (INT4 | {"sparsity_config": {"format": "sparse-24-bitmask"}}, "quantization_config.sparsity_config"),
        (INT4 | {"transform_config": {"config_groups": {"R1": {}}}}, "quantization_config.transform_config"),
        ({"quant_method": "fp8", "fmt": "e5m2"}, "quantization_config.fmt: 'e5m2'"),
    ],
)
def test_refused_configurations_name_the_field(config: Any, message: str, tmp_path: Path) -> None:
    save_quantised(tmp_path, config, write_packed)
    with pytest.raises(UnsupportedModel) as caught:
        load_model(resolve(str(tmp_path)), torch.float32, CPU)
    assert message in str(caught.value)
    assert "\n" not in str(caught.value)


UP = "model.layers.0.mlp.up_proj."


@pytest.mark.parametrize(
    ("name", "changes", "message"),
    [
        ("packed int4", {"weight_shape": None}, "weight_packed is"),
        ("packed int4", {"weight_shape": torch.tensor([96, 2**40])}, "does not fit weight_shape"),
        ("packed int4", {"weight_packed": torch.zeros(96, 8)}, "weight_packed is torch.float32, not int32"),
        ("packed int4", {"weight_scale": torch.ones(95, 2)}, "weight_scale is [95, 2]"),
        ("packed int4", {"weight_scale": torch.ones(96, 5)}, "weight_scale is [96, 5]"),
        ("packed int4", {"weight_scale": torch.full((96, 2), torch.inf)}, "not finite as float16"),
        ("packed int4", {"weight_g_idx": torch.full((64,), 2)}, "g_idx has groups from 2 to 2, there are 2"),
        ("packed int4, zero points", {"weight_zero_point": torch.zeros(96, 2).int()}, "weight_zero_point is [96, 2]"),
        ("int8", {"weight": torch.zeros(96, 64)}, "weight is torch.float32, not int8 or float8_e4m3fn"),
        ("fp8, tensors", {"weight": torch.full((96, 64), torch.nan).to(torch.float8_e4m3fn)}, "not finite"),
        ("gptq", {"qzeros": None}, "qzeros is None"),
        ("gptq", {"scales": torch.ones(2, 95).half()}, "scales is (2, 95)"),
        ("gptq", {"scales": torch.ones(3, 96).half(), "qzeros": torch.zeros(3, 12).int()}, "can't be 3 groups"),
        ("gptq", {"g_idx": torch.full((64,), -1).int()}, "g_idx has groups from -1"),
        ("awq", {"qweight": torch.zeros(64).int()}, "qweight is missing or no matrix"),
        ("awq", {"qzeros": torch.zeros(2, 11).int()}, "qzeros is (2, 11)"),
    ],
)
def test_damaged_modules_are_named(
    name: str, changes: dict[str, torch.Tensor | None], message: str, tmp_path: Path
) -> None:
    config, write, _, _ = LAYOUTS[name]
    save_quantised(tmp_path, config, write)
    edit_tensors(tmp_path, {f"{UP}{part}": tensor for part, tensor in changes.items()})
    source, settings = resolve(str(tmp_path)), EngineSettings(model="", quantization="auto")
    with pytest.raises(BadWeights) as caught:
        convert_to_kernels(load_or_describe(source, torch.float32, settings), source, settings)
    assert message in str(caught.value)
    assert UP.removesuffix(".") in str(caught.value)


def test_a_wrong_shape_costs_no_memory(tmp_path: Path) -> None:
    save_quantised(tmp_path, AWQ, write_awq)
    path = tmp_path / "config.json"
    path.write_text(json.dumps(json.loads(path.read_text()) | {"hidden_size": 2**30}))
    with pytest.raises(BadWeights, match="the configuration says"):
        load_model(resolve(str(tmp_path)), torch.float32, CPU)


def test_a_configuration_that_is_no_object(tmp_path: Path) -> None:
    with pytest.raises(UnsupportedModel, match="no object"):
        QuantisedFolder(tmp_path, "int4")


def test_models_that_are_served_unquantised_are_refused(tmp_path: Path) -> None:
    save_quantised(tmp_path, AWQ, write_awq)
    with pytest.raises(UnsupportedModel, match="quantization_config: a llama of this kind is served unquantised"):
        read_config(tmp_path)
