"""Transports: abstract interface (`base`), RabbitMQ through pika (`rabbitmq`), in-memory broker (`memory`)."""
