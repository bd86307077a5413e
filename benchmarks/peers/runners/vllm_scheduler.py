"""Scheduler for vLLM's server that reports its largest use of the KV cache, which its gauge at a step's end misses."""

from __future__ import annotations

from typing import Any

from vllm.v1.core.sched.scheduler import Scheduler


class PeakScheduler(Scheduler):  # type: ignore[misc] # vLLM is not installed here
    """vLLM's scheduler whose `kv_cache_usage` is the largest share of the blocks that requests ever held at once."""

    _peak = 0.0

    def schedule(self, *arguments: Any, **options: Any) -> Any:
        """Plan a step as vLLM does, and note the use of the KV cache during that step."""
        output = super().schedule(*arguments, **options)
        self._peak = max(self._peak, self.kv_cache_manager.usage)
        return output

    def make_stats(self, *arguments: Any, **options: Any) -> Any:
        """Return vLLM's statistics of a step, with the largest use of the KV cache in the place of the present one."""
        stats = super().make_stats(*arguments, **options)
        if stats is not None:
            stats.kv_cache_usage = self._peak
        return stats
