"""The transport over RabbitMQ, by pika: the only package that imports it.

pika is not thread-safe and its connections do not mend themselves. So one daemon thread with an event loop of its
own owns everything of pika; the application's loop and this one talk by mailboxes only.

    application's loop                     thread "<name> amqp"
    transport.RabbitMQTransport  --calls-> publishing, receiving     (what a channel is used for)
    receiving.RabbitMQDelivery   <-calls-- supervisor.Link, Keeper   (connections and channels that mend themselves)
                                           channel                   (pika as coroutines)
"""

from router.transport.rabbitmq.transport import RabbitMQTransport

__all__ = ["RabbitMQTransport"]
