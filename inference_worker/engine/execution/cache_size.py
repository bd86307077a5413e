"""Computes how many KV cache blocks an engine allocates, from its settings and the memory that is free."""

from __future__ import annotations

import psutil
import torch

from inference_worker.engine.kv_cache import KVCacheShape
from inference_worker.errors import ModelError
from inference_worker.settings import EngineSettings

CPU_SHARE, CPU_MAX_BYTES = 0.25, 4 * 2**30
CUDA_SHARE = 0.9


def count_blocks(
    settings: EngineSettings, shape: KVCacheShape, max_model_len: int, device: torch.device, draft_block_bytes: int = 0
) -> int:
    """Return the number of KV cache blocks to allocate: as configured, else as many as fit the available memory.

    Never more than all sequences could fill. `draft_block_bytes` is the size of a block of a draft model, of which
    there is one beside each.

    Raises:
        ModelError: not even one block fits.
    """
    if settings.num_kv_blocks is not None:
        return settings.num_kv_blocks
    memory = settings.kv_cache_memory if settings.kv_cache_memory is not None else available_memory(device)
    useful = settings.max_num_seqs * -(-max_model_len // shape.block_size)
    block_bytes = shape.bytes_per_block + draft_block_bytes
    blocks = min(memory // block_bytes, useful)
    if blocks < 1:
        raise ModelError(f"no memory for the KV cache: {memory} bytes, one block takes {block_bytes}")
    return blocks


def available_memory(device: torch.device) -> int:
    """Return the bytes for the KV cache: 0.9 of the device's free CUDA memory, or 0.25 of free RAM up to 4 GiB.

    Call it once the weights are loaded, so that their memory is not counted as free.
    """
    if device.type == "cuda":
        return int(torch.cuda.mem_get_info(device)[0] * CUDA_SHARE)
    return min(CPU_MAX_BYTES, int(psutil.virtual_memory().available * CPU_SHARE))
