"""The transport over RabbitMQ, by pika: the only package that imports it.

pika is not thread-safe and its connections do not mend themselves. Everything here runs on the application's event loop
(docs/adr/0036), in layers:

    transport.RabbitMQTransport            (what the application holds)
    publishing, receiving, browsing        (what a channel is used for)
    supervisor.Link, Keeper                (connections and channels that mend themselves)
    channel                                (pika as coroutines)
    stream                                 (the bytes below pika)
"""

from router.transport.rabbitmq.transport import RabbitMQTransport

__all__ = ["RabbitMQTransport"]
