"""Prometheus counters of stored objects in a process: objects and bytes stored, and what the sweeper deleted."""

from __future__ import annotations

from functools import partial

from prometheus_client import CollectorRegistry, Counter


class ObjectMetrics:
    """Prometheus counters of the stored objects of one process."""

    def __init__(self, registry: CollectorRegistry) -> None:
        counter = partial(Counter, registry=registry)
        self.stored = counter(
            "headrace_objects_stored", "Images and files stored, by kind (image, file, part of a file).", ["kind"]
        )
        self.stored_bytes = counter("headrace_objects_stored_bytes", "Bytes of the images and files stored.")
        self.swept = counter(
            "headrace_objects_swept",
            "Images and files deleted by the sweeper: expired, of writers that died (pending), of unfinished deletions "
            "(deleting), or without a document (orphan).",
            ["reason"],
        )
        self.sweep_failures = counter(
            "headrace_object_sweep_failures", "Deletions that failed and are repeated: store or blobs unavailable."
        )
