"""A GGUF's int4 is kept as it is; what is packed answers like the float32 model, and what can't be packed says so."""

from __future__ import annotations

import math
from pathlib import Path

import gguf
import pytest
import torch
from tokenizers import Tokenizer, models, pre_tokenizers
from torch.nn import functional as F

from inference_worker.errors import UnsupportedModel
from inference_worker.execution.gguf_file import GGUFFile
from inference_worker.execution.loading import load_model
from inference_worker.execution.quantization import quantize
from inference_worker.gguf_metadata import read_tokenizer
from inference_worker.layers.quantized_linear import QuantizedLinear
from inference_worker.model_source import resolve
from tests.fakes.packed_steps import packed_logits, random_sequences
from tests.fakes.tiny_models import save_tiny
from tests.inference_worker.execution.test_gguf_file import write_gguf

CPU = torch.device("cpu")
WIDE = {"hidden_size": 64, "intermediate_size": 96, "head_dim": 16}
TEXT = """The river rose slowly in the spring, and the mill by the bridge began to turn again. People from the village
came to watch the wheel, as they did every year, and the miller told them how much grain he would grind before the
summer. Water is led to a mill along a channel that is called the headrace; behind the wheel it flows away through the
tailrace. The more water there is, and the further it falls, the more work the wheel can do in an hour."""


def tiny_gguf(folder: Path, kind: str, model_type: str = "llama", **changes) -> Path:
    path = folder / "tiny.gguf"
    theirs = save_tiny(folder / "theirs", model_type, **{**WIDE, **changes})
    write_gguf(path, theirs, kind=gguf.GGMLQuantizationType[kind])
    return path


def quantized(path: Path, scheme: str):
    source = resolve(str(path))
    model = load_model(source, torch.float32, CPU)
    return model, quantize(model, source, scheme, CPU)


def packed_layers(model) -> int:
    return sum(isinstance(module, QuantizedLinear) for module in model.modules())


@pytest.mark.parametrize("kind", ["Q4_0", "Q4_1"])
def test_int4_values_are_the_dequantised_weights(kind, tmp_path):
    file = GGUFFile(tiny_gguf(tmp_path, kind))
    dense = dict(file.tensors())
    values = dict(file.int4_values())
    assert len(values) == 4 * 7 + 2  # the layers' matrices, embedding and head
    for name, found in values.items():
        assert torch.equal(found.dense(), dense[name]), name


@pytest.mark.parametrize(("kind", "scheme"), [("Q4_0", "int4"), ("Q4_1", "auto"), ("Q8_0", "int8")])
def test_logits_are_those_of_the_dense_model(kind, scheme, tmp_path):
    path = tiny_gguf(tmp_path, kind)
    model, chosen = quantized(path, scheme)
    assert chosen == ("int8" if scheme == "int8" else "int4")
    assert packed_layers(model) == 4 * 4
    sequences = random_sequences(97)
    expected = packed_logits(load_model(resolve(str(path)), torch.float32, CPU), sequences, [1])
    for plan in ([1], [40]):  # few rows a step, and many
        for rows, dense in zip(packed_logits(model, sequences, plan), expected, strict=True):
            assert (rows - dense).norm() / dense.norm() < 0.05


def test_layers_of_other_shapes_stay_dense(tmp_path):
    model, chosen = quantized(tiny_gguf(tmp_path, "F16", intermediate_size=72), "int8")
    assert (chosen, packed_layers(model)) == ("int8", 4 * 2)  # no layer of the feed-forward, both of attention


@pytest.mark.parametrize("kind", ["F16", "Q8_0"])
def test_int4_is_only_for_files_that_have_it(kind, tmp_path):
    path = tiny_gguf(tmp_path, kind)
    assert quantized(path, "auto")[1] == "none"
    with pytest.raises(UnsupportedModel, match="Q4_0 or Q4_1"):
        quantized(path, "int4")


def test_other_backends_and_devices_are_refused(tmp_path):
    path = tiny_gguf(tmp_path, "Q4_1")
    source = resolve(str(path))
    model = load_model(source, torch.float32, CPU)
    with pytest.raises(UnsupportedModel, match="only on the CPU"):
        quantize(model, source, "int4", torch.device("cuda"))
    assert quantize(model, source, "auto", torch.device("cuda")) == "none"
    assert packed_layers(model) == 0


@pytest.fixture(scope="module")
def text_ids(model_file: Path) -> list[int]:
    known = read_tokenizer(model_file)
    merges = [tuple(merge.split(" ")) for merge in known.merges]
    tokenizer = Tokenizer(models.BPE({token: i for i, token in enumerate(known.tokens)}, merges))
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    return tokenizer.encode(TEXT).ids


@pytest.fixture(scope="module")
def float32_logits(model_file: Path, text_ids: list[int]) -> torch.Tensor:
    return packed_logits(load_model(resolve(str(model_file)), torch.float32, CPU), [text_ids], [len(text_ids)])[0]


def perplexity(logits: torch.Tensor, ids: list[int]) -> float:
    return math.exp(F.cross_entropy(logits[:-1], torch.tensor(ids[1:])).item())


@pytest.mark.model
@pytest.mark.parametrize("scheme", ["int4", "int8"])
def test_perplexity_and_greedy_choice_of_the_real_model(scheme, model_file, text_ids, float32_logits):
    model, chosen = quantized(model_file, scheme)
    assert (chosen, packed_layers(model)) == (scheme, 30 * 4)
    logits = packed_logits(model, [text_ids], [8])[0]
    ratio = perplexity(logits, text_ids) / perplexity(float32_logits, text_ids)
    agreement = (logits.argmax(-1) == float32_logits.argmax(-1)).float().mean().item()
    print(f"{scheme}: perplexity x {ratio:.4f}, greedy agreement {agreement:.3f} of {len(text_ids)}")
    assert abs(ratio - 1) < 0.01
    assert agreement > 0.97  # measured: int4 0.990, int8 1.000
