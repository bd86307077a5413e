"""Transports: connections to the broker behind one interface (`base`): RabbitMQ by pika, or an in-memory broker."""
