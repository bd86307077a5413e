"""Rules of the topology that prevent message loss on RabbitMQ 3.10 to 4.x."""

from __future__ import annotations

import pytest

from router import topology
from router.topology import Queue

ALL_QUEUES = [*topology.platform().queues, *topology.model("m").queues]


@pytest.mark.parametrize("queue", ALL_QUEUES, ids=lambda queue: queue.name)
def test_shared_queues(queue: Queue) -> None:
    arguments = queue.arguments
    assert arguments["x-queue-type"] == "quorum"
    assert int(arguments["x-delivery-limit"]) > 0  # -1 destroys messages on 3.10, none is 20 on 4.x
    assert "x-max-priority" not in arguments
    assert queue.name.endswith(".v1")


def test_bindings_refer_to_declared_exchanges_and_queues() -> None:
    both = [topology.platform(), topology.model("m")]
    exchanges = {exchange.name for part in both for exchange in part.exchanges}
    queues = {queue.name for part in both for queue in part.queues}
    for part in both:
        for binding in part.bindings:
            assert binding.exchange in exchanges
            assert binding.queue in queues


def test_dead_letters_of_every_queue_are_routed_to_a_queue() -> None:
    patterns = {b.routing_key for b in topology.platform().bindings if b.exchange == topology.DEAD_LETTERS_EXCHANGE}
    assert patterns == {"job.#", topology.SETTLE_ROUTING_KEY, topology.DIAGNOSED_ROUTING_KEY}
    keys = {
        str(q.arguments["x-dead-letter-routing-key"]) for q in ALL_QUEUES if "x-dead-letter-exchange" in q.arguments
    }
    assert keys == {topology.SETTLE_ROUTING_KEY, topology.dead_job_routing_key("m")}
