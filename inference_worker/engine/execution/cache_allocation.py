"""Allocates an engine's KV cache with its block manager: memory of its own, or memory that a pool lends."""

from __future__ import annotations

from dataclasses import dataclass

import structlog
import torch

from inference_worker.engine.execution.cache_size import count_blocks
from inference_worker.engine.kv_cache import KVCache, KVCacheShape
from inference_worker.engine.lent_kv_cache import LentKVCache, extent_blocks
from inference_worker.engine.scheduling.block_manager import BlockManager
from inference_worker.engine.scheduling.lent_blocks import LentBlockManager
from inference_worker.engine.scheduling.memory_pool import MemoryPool
from inference_worker.engine.scheduling.prefix_cache import PrefixCache
from inference_worker.errors import ModelError
from inference_worker.settings import EngineSettings

log = structlog.get_logger(__name__)


@dataclass(frozen=True)
class CacheAllocation:
    """A KV cache, the manager of its blocks, and the tokens of the longest sequence that it always has room for."""

    cache: KVCache
    blocks: BlockManager
    max_model_len: int


def allocate_cache(
    settings: EngineSettings,
    shape: KVCacheShape,
    max_model_len: int,
    prefix_cache: PrefixCache,
    pool: MemoryPool | None = None,
    *,
    draft_block_bytes: int = 0,
) -> CacheAllocation:
    """Allocate a KV cache for sequences of up to `max_model_len` tokens, which is shortened to what fits the memory.

    With a `pool` the blocks are lent by it, and `settings.kv_cache_memory` does not matter. Without one the memory also
    has room for as many blocks of a draft model, of `draft_block_bytes` bytes each.

    Raises:
        ModelError: not even one block fits the memory.
    """
    if pool is not None:
        return _lent(settings, shape, max_model_len, prefix_cache, pool)
    device = torch.device(settings.device)
    count = count_blocks(settings, shape, max_model_len, device, draft_block_bytes)
    blocks = BlockManager(count, shape.block_size, prefix_cache)
    _log_size(shape, count)
    return CacheAllocation(KVCache(shape, count, device), blocks, _shortened(max_model_len, count * shape.block_size))


def _lent(
    settings: EngineSettings, shape: KVCacheShape, max_model_len: int, prefix_cache: PrefixCache, pool: MemoryPool
) -> CacheAllocation:
    size, extent = shape.block_size, extent_blocks(shape)
    extent_bytes = extent * shape.bytes_per_block
    useful = settings.max_num_seqs * -(-max_model_len // size)
    extents = min(pool.total // extent_bytes, -(-useful // extent))
    guaranteed = min(-(-max_model_len // (size * extent)), pool.share // extent_bytes)
    if guaranteed < 1:
        raise ModelError(
            f"no memory for the KV cache: {pool.share} bytes for each model, one extent has {extent_bytes}"
        )
    cache = LentKVCache(shape, extents * extent)
    blocks = LentBlockManager(
        extents * extent,
        size,
        prefix_cache,
        pool,
        extent=extent,
        bytes_per_block=shape.bytes_per_block,
        guaranteed=guaranteed * extent,
        discard=cache.discard,
    )
    _log_size(shape, extents * extent)
    return CacheAllocation(cache, blocks, _shortened(max_model_len, guaranteed * extent * size))


def _log_size(shape: KVCacheShape, blocks: int) -> None:
    dtype = str(shape.dtype).removeprefix("torch.")
    log.info("KV cache", dtype=dtype, blocks=blocks, tokens=blocks * shape.block_size)


def _shortened(wanted: int, held: int) -> int:
    if held < wanted:
        log.warning("context shortened to what the KV cache holds", max_model_len=held, wanted=wanted)
    return min(wanted, held)
