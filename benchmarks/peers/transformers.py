"""Measures the peer engine Hugging Face transformers in two ways: `generate` on a batch, and continuous batching."""

from __future__ import annotations

from collections.abc import Mapping
from typing import ClassVar

from benchmarks.peers.peer import DTYPE, SafetensorsPeer


class Transformers(SafetensorsPeer):
    """`generate` in the dtype that the processor multiplies fastest."""

    name = "transformers generate"
    setting = f"{DTYPE}, SDPA, one batch of equal lengths"
    environment = "transformers"
    packages = ("transformers>=5.20,<6", "torch==2.13.0", "accelerate>=1.10,<2", "psutil")
    runner = "transformers_runner"
    variables: ClassVar[Mapping[str, str]] = {"PEER_DTYPE": DTYPE}


class TransformersBatching(Transformers):
    """Continuous batching by `generate_batch`."""

    name = "transformers continuous batching"
    setting = f"{DTYPE}, paged SDPA"
    runner = "transformers_batching_runner"
