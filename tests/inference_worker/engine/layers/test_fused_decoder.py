"""The fused decoder computes what the plain one computes; its kernels run in Triton's interpreter."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch
from torch.overrides import TorchFunctionMode

pytest.importorskip("triton", reason="there are builds of Triton for Linux only")

from inference_worker.engine.layers.decoder import Decoder
from inference_worker.engine.layers.fused_decoder import FusedDecoder, add_norm
from inference_worker.engine.layers.rms_norm import RMSNorm
from inference_worker.engine.loading.model_loader import load_model
from inference_worker.model_files.model_source import resolve
from tests.fakes.packed_steps import first_step, packed_logits, random_sequences
from tests.fakes.tiny_models import save_tiny

CPU = torch.device("cpu")

CASES: dict[str, tuple[str, dict[str, Any]]] = {
    "llama": ("llama", {"num_attention_heads": 6, "hidden_size": 36, "head_dim": 12}),
    "biases": ("llama", {"attention_bias": True, "mlp_bias": True}),
    "another activation": ("llama", {"hidden_act": "gelu"}),
    "normalised heads": ("qwen3", {"head_dim": 16}),
    "layers without positions": ("smollm3", {"no_rope_layers": [1, 0], "pad_token_id": 0}),
    "window": ("mistral", {"sliding_window": 5}),
}


@pytest.mark.parametrize("case", CASES)
def test_equals_the_plain_decoder(case: str, tmp_path: Path) -> None:
    model_type, changes = CASES[case]
    save_tiny(tmp_path, model_type, **{"num_hidden_layers": 2, **changes})
    plain = load_model(resolve(str(tmp_path)), torch.float32, CPU)
    assert isinstance(plain, Decoder)
    sequences = random_sequences(97)[:2]
    for chosen, chunk in ((sequences, 40), (sequences[:1], 1)):
        ours = packed_logits(FusedDecoder(plain), chosen, [chunk])
        for fused, expected in zip(ours, packed_logits(plain, chosen, [chunk]), strict=True):
            torch.testing.assert_close(fused, expected, rtol=1e-4, atol=1e-4)


class _Called(TorchFunctionMode):
    """Records the names of the functions of torch that are called."""

    def __init__(self) -> None:
        super().__init__()
        self.names: set[str] = set()

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        self.names.add(func.__name__)
        return func(*args, **(kwargs or {}))


@pytest.mark.parametrize(("tokens", "unfused"), [(2, {"linear"}), (1, set())])
def test_kernels_replace_torch(tokens: int, unfused: set[str], tmp_path: Path) -> None:
    save_tiny(tmp_path, "llama", num_hidden_layers=2)
    decoder = load_model(resolve(str(tmp_path)), torch.float32, CPU)
    assert isinstance(decoder, Decoder)
    with _Called() as called:
        first_step(FusedDecoder(decoder), [[5] * tokens])
    assert called.names & {"silu", "linear"} == unfused


def test_bfloat16() -> None:
    norm = RMSNorm(48, 1e-5, dtype=torch.bfloat16)
    generator = torch.Generator().manual_seed(1)
    norm.weight.copy_(torch.randn(48, generator=generator))
    stream, delta = (torch.randn(5, 48, generator=generator).bfloat16() for _ in range(2))
    total = stream + delta
    normed = add_norm(stream, delta, norm)
    torch.testing.assert_close(stream, total, rtol=2**-7, atol=0)  # the interpreter cuts off instead of rounding
    total = stream
    exact = total.double() / (total.double().pow(2).mean(-1, keepdim=True) + 1e-5).sqrt() * norm.weight.double()
    torch.testing.assert_close(normed.double(), exact, rtol=2**-7, atol=1e-3)
