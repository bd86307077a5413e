"""RabbitMQ transport. The only package that imports pika.

pika is not thread-safe and its connections do not reconnect. Everything here runs on the application's event loop
(docs/adr/0036), in layers:

    transport.RabbitMQTransport            (the public class)
    publishing, receiving, browsing        (the uses of a channel)
    supervisor.Link, Keeper                (connections and channels that are reopened after a loss)
    channel                                (pika as coroutines)
    stream                                 (socket I/O below pika)
"""

from router.transport.rabbitmq.transport import RabbitMQTransport

__all__ = ["RabbitMQTransport"]
