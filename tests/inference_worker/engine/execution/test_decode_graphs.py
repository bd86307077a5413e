"""Tests of captured steps: they must never synchronise with the host, as a graph would replay the first result."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import Tensor
from torch.utils._python_dispatch import TorchDispatchMode
from transformers import LlamaConfig

from inference_worker.engine.attention_backend import AttentionBackend, AttentionInputs, AttentionMetadata
from inference_worker.engine.execution.decode_graphs import DecodeGraphs, GraphKey, Work
from inference_worker.engine.execution.decode_rows import DecodeRows
from inference_worker.engine.kv_cache import KVCache, KVCacheShape
from inference_worker.engine.layers.decoder import Decoder
from inference_worker.engine.layers.rotary import Rotary
from inference_worker.engine.models.families import FAMILIES
from inference_worker.engine.sampling.graph_sampling import Stage
from tests.fakes.tiny_models import BASE

CPU = torch.device("cpu")

ASKING = {
    "aten::item",
    "aten::_local_scalar_dense",
    "aten::is_nonzero",
    "aten::nonzero",
    "aten::masked_select",
    "aten::lift_fresh",  # a tensor made of Python numbers: a copy from the host
    "aten::_unique2",
    "aten::repeat_interleave.Tensor",
}


class NoSynchronisation(TorchDispatchMode):
    """Raises on operations that synchronise with the host or move data between devices."""

    def __torch_dispatch__(
        self, func: Any, types: Any, args: tuple[Any, ...] = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        name = func.name()
        assert name not in ASKING, f"{name} in a captured step"
        if name == "aten::index.Tensor":
            assert all(index is None or index.dtype != torch.bool for index in args[1]), "indexing by a mask"
        return func(*args, **(kwargs or {}))


class NoAttention(AttentionBackend):
    """Passes the values on; the Triton backend is tested by its own."""

    name = "none"

    def forward(self, inputs: AttentionInputs, metadata: AttentionMetadata) -> Tensor:
        return inputs.value.repeat_interleave(inputs.query.shape[1] // inputs.value.shape[1], dim=1)


@pytest.fixture
def graphs() -> DecodeGraphs:
    config = FAMILIES["llama"](LlamaConfig(**BASE))
    model = Decoder(config, Rotary(torch.ones(4)), dtype=torch.float32)
    for parameter in model.parameters():
        torch.nn.init.normal_(parameter)
    attention = NoAttention(KVCache(KVCacheShape(4, 2, 8, 4, torch.float32), 2, CPU))
    rows = DecodeRows(70, 8, CPU)
    return DecodeGraphs(model, attention, rows, steps=4, uniform=lambda seed, *_: torch.zeros_like(seed).double())


@pytest.mark.parametrize("stage", list(Stage))
def test_steps_never_synchronise_with_the_host(graphs: DecodeGraphs, stage: Stage) -> None:
    with torch.inference_mode(), NoSynchronisation():
        graphs.step(GraphKey(8, stage))


def test_the_check_detects_synchronisation() -> None:
    for asking in (lambda x: x.max().item(), lambda x: x[x > 0], lambda x: x + torch.tensor([1.0]), torch.nonzero):
        with torch.inference_mode(), NoSynchronisation(), pytest.raises(AssertionError):
            asking(torch.ones(3))


def test_a_batch_uses_the_smallest_sufficient_graph(graphs: DecodeGraphs) -> None:
    wanted = {1: 1, 2: 2, 3: 4, 8: 8, 33: 48, 48: 48, 65: 70, 70: 70}
    assert {count: graphs.key(count, Stage.RANDOM).rows for count in wanted} == wanted


def test_every_size_and_stage_is_captured_with_idle_rows(graphs: DecodeGraphs) -> None:
    ran = []

    def capture(work: Work) -> Work:
        work()
        ran.append(work)
        return work

    graphs.capture(capture)
    assert len(ran) == len(graphs.sizes) * len(Stage)
    for count in range(1, 71):
        for stage in Stage:
            graphs.restart()
            graphs.replay(graphs.key(count, stage))
