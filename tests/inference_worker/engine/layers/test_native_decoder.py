"""The compiled forward pass computes what the PyTorch modules compute, for every family and cache format."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch

from inference_worker.engine.layers.decoder import Decoder
from inference_worker.engine.layers.native_decoder import NativeDecoder, check_supported
from inference_worker.engine.loading.model_loader import load_model
from inference_worker.engine.native.library import Kernels
from inference_worker.engine.native.packing import Int8Values, Values
from inference_worker.engine.native.step_interrupt import AT_NEXT_LAYER, NEVER
from inference_worker.engine.weights.weights import parameters_by_name
from inference_worker.errors import NativeUnavailable
from inference_worker.model_files.model_source import resolve
from inference_worker.settings import ActivationBits
from tests.fakes.int4_weights import matrices, rounded
from tests.fakes.packed_steps import first_step, packed_logits, random_sequences
from tests.fakes.tiny_models import save_tiny
from tests.inference_worker.engine.models.test_families import CASES

CPU = torch.device("cpu")
FITTING: dict[str, Any] = {"head_dim": 16, "intermediate_size": 64, "hidden_act": "silu"}


def dense_and_native(
    folder: Path, model_type: str, instructions: str | None = None, threads: int = 1, **changes: Any
) -> tuple[Decoder, NativeDecoder]:
    save_tiny(folder, model_type, **changes)
    model = load_model(resolve(str(folder)), torch.float32, CPU)
    assert isinstance(model, Decoder)
    check_supported(model.config)
    return model, NativeDecoder(model, parameters_by_name(model).__getitem__, Kernels(threads, instructions))


@pytest.mark.parametrize("case", CASES)
def test_logits_equal_those_of_the_modules(case: str, instructions: str | None, tmp_path: Path) -> None:
    model_type, changes = CASES[case]
    model, native = dense_and_native(tmp_path, model_type, instructions, threads=2, **changes | FITTING)
    sequences = random_sequences(97)
    expected = packed_logits(model, sequences, [64])
    for chunks, prompt_length in (([64], None), ([64], 5), ([7, 1, 3], 5), ([1], 0)):
        found = packed_logits(native, sequences, chunks, prompt_length=prompt_length)
        for rows, reference in zip(found, expected, strict=True):
            torch.testing.assert_close(rows, reference, atol=1e-4, rtol=1e-4)


@pytest.mark.parametrize("changes", [{}, {"num_attention_heads": 8, "num_key_value_heads": 2}])
def test_many_sequences_read_all_heads_together(
    changes: dict[str, Any], instructions: str | None, tmp_path: Path
) -> None:
    """With enough sequences a task has all heads, and prefetches its next tile or the next task's."""
    model, native = dense_and_native(tmp_path, "llama", instructions, threads=2, **FITTING | changes)
    sequences = [*random_sequences(97), *(torch.arange(length).remainder(97).tolist() for length in range(60, 205, 24))]
    expected = packed_logits(model, sequences, [64])
    for rows, reference in zip(packed_logits(native, sequences, [1], prompt_length=0), expected, strict=True):
        torch.testing.assert_close(rows, reference, atol=1e-4, rtol=1e-4)


def logits_by_bits(folder: Path, instructions: str) -> dict[ActivationBits, list[torch.Tensor]]:
    """Logits of two models for each number of bits: of the output layer alone, and of a model with a bfloat16 cache."""
    save_tiny(folder, "llama", **FITTING)
    model = load_model(resolve(str(folder)), torch.float32, CPU)
    assert isinstance(model, Decoder)
    weights: dict[str, Values] = {**parameters_by_name(model)}
    weights["lm_head.weight"] = Int8Values.of(model.lm_head.weight)
    states = torch.randn(3, model.lm_head.weight.shape[1], generator=torch.Generator().manual_seed(1))
    found: dict[ActivationBits, list[torch.Tensor]] = {}
    choices: tuple[ActivationBits, ...] = (16, "auto", 8)
    for bits in choices:
        kernels = Kernels(1, instructions)
        native = NativeDecoder(model, weights.__getitem__, kernels, activation_bits=bits)
        found[bits] = [
            native.logits(states),
            *packed_logits(native, random_sequences(97), [64], cache_dtype=torch.bfloat16),
        ]
    return found


def test_the_output_layer_has_inputs_of_16_bits_by_default(instructions: str, tmp_path: Path) -> None:
    (wide, *_), (default, *_), (narrow, *_) = logits_by_bits(tmp_path, instructions).values()
    assert torch.equal(default, wide)
    assert torch.equal(narrow, wide) != Kernels(1, instructions).multiplies_bytes


def test_attention_is_in_float32_by_default(instructions: str, tmp_path: Path) -> None:
    wide, default, narrow = logits_by_bits(tmp_path, instructions).values()
    assert all(map(torch.equal, default, wide))
    assert not all(map(torch.equal, narrow, wide))


@pytest.mark.parametrize("head_dim", [48, 80])
def test_heads_may_be_of_odd_sizes(head_dim: int, instructions: str | None, tmp_path: Path) -> None:
    model, native = dense_and_native(tmp_path, "llama", instructions, **FITTING | {"head_dim": head_dim})
    sequences = random_sequences(97)
    expected = packed_logits(model, sequences, [64])
    for prompt_length in (None, 0):
        found = packed_logits(native, sequences, [64], prompt_length=prompt_length)
        for rows, reference in zip(found, expected, strict=True):
            torch.testing.assert_close(rows, reference, atol=1e-4, rtol=1e-4)


@pytest.mark.parametrize(("dtype", "most"), [(torch.float16, 0.001), (torch.bfloat16, 0.01), (torch.int8, 0.01)])
def test_a_narrow_cache_costs_little(dtype: torch.dtype, most: float, instructions: str | None, tmp_path: Path) -> None:
    model, native = dense_and_native(tmp_path, "llama", instructions, **FITTING)
    sequences = random_sequences(97)
    expected = packed_logits(model, sequences, [64])
    for rows, reference in zip(packed_logits(native, sequences, [5], dtype, prompt_length=9), expected, strict=True):
        assert (rows - reference).norm() / reference.norm() < most


def test_late_threads_change_nothing(tmp_path: Path) -> None:
    """Many more threads than cores: most find that a share of the work, or the whole step, is over."""
    sequences = random_sequences(97)
    logits = [
        packed_logits(dense_and_native(tmp_path, "llama", threads=threads, **FITTING)[1], sequences, chunks)
        for threads, chunks in ((1, [5]), *[(16, [5])] * 8)
    ]
    for others in logits[1:]:
        assert all(torch.equal(rows, reference) for rows, reference in zip(others, logits[0], strict=True))


@pytest.mark.parametrize("threads", [1, 16])
def test_interrupted_steps_compute_the_same(threads: int, instructions: str | None, tmp_path: Path) -> None:
    _, native = dense_and_native(tmp_path, "llama", instructions, threads=threads, **FITTING)
    sequences = random_sequences(97)
    expected = packed_logits(native, sequences, [5])
    command_fd, write_fd = os.pipe()
    played = []

    def handler() -> int:
        played.append(packed_logits(native, sequences, [5]))
        return again.pop() if again else NEVER

    again: list[int] = []
    native.step_interrupt.wakeup_fd, native.step_interrupt.handler = command_fd, handler
    packed_logits(native, sequences, [5])
    assert not played  # nothing to hear
    os.write(write_fd, b"!")
    interrupted = packed_logits(native, sequences, [5])
    assert len(played) == -(-max(map(len, sequences)) // 5) + 1  # once a step, and never within
    del played[1:]
    again += [AT_NEXT_LAYER]
    again_interrupted = packed_logits(native, sequences, [5])
    for logits in (interrupted, again_interrupted, *played):
        assert all(torch.equal(rows, reference) for rows, reference in zip(logits, expected, strict=True))
    os.close(command_fd)
    os.close(write_fd)


@pytest.mark.parametrize("read", [[1, 1, 1, 1], [0, 1, 30, 0], [0, 0, 0, 0], [13, 1, 40, 22]])
def test_unread_states_are_skipped_in_the_last_layer_only(
    read: list[int], instructions: str | None, tmp_path: Path
) -> None:
    _, native = dense_and_native(tmp_path, "llama", instructions, threads=2, **FITTING)
    sequences = random_sequences(97)
    whole, cache = first_step(native, sequences)
    part, same_cache = first_step(native, sequences, read)
    rows = [len(ids) for ids in sequences]
    for states, expected, count in zip(part.split(rows), whole.split(rows), read, strict=True):
        torch.testing.assert_close(states[len(states) - count :], expected[len(states) - count :], atol=0, rtol=1e-5)
    for left, right in zip((*cache.keys, *cache.values), (*same_cache.keys, *same_cache.values), strict=True):
        assert torch.equal(left, right)
    assert torch.equal(part, whole) == (read == rows)


def test_a_batch_larger_than_the_last_one_fits(tmp_path: Path) -> None:
    """Memory kept from step to step grows."""
    model, native = dense_and_native(tmp_path, "llama", **FITTING)
    for length in (3, 400, 30):
        ids = [torch.arange(length).remainder(97).tolist()]
        torch.testing.assert_close(packed_logits(native, ids, [512]), packed_logits(model, ids, [512]))


@pytest.mark.parametrize(
    ("changes", "reason"),
    [
        ({"intermediate_size": 40}, "intermediate size 40 is no multiple of 32"),
        ({"head_dim": 8}, "head size 8 is no multiple of 16"),
        ({"hidden_act": "gelu"}, "activation 'gelu'"),
    ],
)
def test_unsupported_sizes_are_named(changes: dict[str, Any], reason: str, tmp_path: Path) -> None:
    with pytest.raises(NativeUnavailable, match=reason):
        dense_and_native(tmp_path, "llama", **FITTING | changes)


@pytest.mark.parametrize(
    ("bits", "change"),
    [
        (16, rounded),
        ("auto", rounded),
        ("auto", torch.Tensor.bfloat16),
        (8, rounded),
        (8, torch.Tensor.float),
    ],
)
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.int8])
@pytest.mark.parametrize("changes", [{}, {"sliding_window": 30, "use_sliding_window": True, "max_window_layers": 0}])
def test_logits_depend_neither_on_chunks_nor_on_the_batch(
    bits: ActivationBits,
    change: Callable[[torch.Tensor], Values],
    dtype: torch.dtype,
    changes: dict[str, Any],
    instructions: str | None,
    tmp_path: Path,
) -> None:
    """A prompt may be cut, found in the prefix cache, or come back after a preemption; drafts are computed together."""
    model, _ = dense_and_native(tmp_path, "qwen2", instructions, **FITTING | changes)
    assert {layer.self_attn.pattern.sliding_window for layer in model.model.layers} == {changes.get("sliding_window")}  # type: ignore[union-attr]
    kernels = Kernels(2, instructions)
    weights: dict[str, Values] = {**parameters_by_name(model)}
    weights |= {name: change(weight) for name, weight in matrices(model)}
    native = NativeDecoder(model, weights.__getitem__, kernels, activation_bits=bits)
    sequences = [torch.arange(length).mul(7).remainder(97).tolist() for length in (170, 66, 80, 3)]
    alone = [packed_logits(native, [ids], [1], dtype, prompt_length=120)[0] for ids in sequences]
    for chunks in ([256], [64, 30, 1, 17], [5]):
        for rows, expected in zip(packed_logits(native, sequences, chunks, dtype, 120), alone, strict=True):
            assert torch.equal(rows, expected)
