"""How many blocks the KV cache gets. Knows free memory and the cache's shape, not its owners."""

from __future__ import annotations

import psutil
import torch

from inference_worker.errors import ModelError
from inference_worker.execution.kv_cache import KVCacheShape
from inference_worker.settings import EngineSettings

CPU_SHARE, CPU_MOST = 0.25, 4 * 2**30
CUDA_SHARE = 0.9


def count_blocks(settings: EngineSettings, shape: KVCacheShape, max_model_len: int, device: torch.device) -> int:
    """Blocks of the pool: as set, else what the memory holds, but no more than all sequences could ever fill.

    Raises:
        ModelError: not even one block fits.
    """
    if settings.num_kv_blocks is not None:
        return settings.num_kv_blocks
    memory = settings.kv_cache_memory if settings.kv_cache_memory is not None else free_share(device)
    useful = settings.max_num_seqs * -(-max_model_len // shape.block_size)
    blocks = min(memory // shape.bytes_per_block, useful)
    if blocks < 1:
        raise ModelError(f"no memory for the KV cache: {memory} bytes, one block takes {shape.bytes_per_block}")
    return blocks


def free_share(device: torch.device) -> int:
    """Bytes that may be taken of what is free now, the weights being loaded."""
    if device.type == "cuda":
        return int(torch.cuda.mem_get_info(device)[0] * CUDA_SHARE)
    return min(CPU_MOST, int(psutil.virtual_memory().available * CPU_SHARE))
