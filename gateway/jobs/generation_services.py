"""Bundles the services that all generations of a gateway, and the checks of moderation, share."""

from __future__ import annotations

from typing import NamedTuple

from gateway.admission.publish_queue import PublishQueue
from gateway.admission.queue_estimator import QueueEstimator
from gateway.metrics import GatewayMetrics
from router.bus import Bus
from router.model_registry import ModelRegistry
from router.producer.reply_inbox import ReplyInbox
from router.producer.reply_reader import ReplySource
from router.timings import Timings


class GenerationServices(NamedTuple):
    """Services that all generations of a gateway share."""

    bus: Bus
    inbox: ReplyInbox
    models: ModelRegistry
    metrics: GatewayMetrics
    queues: QueueEstimator
    publish_queue: PublishQueue
    timings: Timings
    replies: ReplySource
