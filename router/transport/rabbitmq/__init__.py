"""RabbitMQ transport: connects processes to RabbitMQ and reconnects them; the only package that imports pika.

pika is not thread-safe and its connections do not reconnect. Everything here runs on the application's event loop
(docs/adr/0036), in layers:

    transport                          (the public class, `RabbitMQTransport`)
    publishers, consumers, browser     (the uses of a channel)
    supervisor                         (reopens connections and channels after a loss)
    channel                            (pika as coroutines)
    stream                             (socket I/O below pika)
"""

from router.transport.rabbitmq.transport import RabbitMQTransport

__all__ = ["RabbitMQTransport"]
