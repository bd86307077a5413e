"""How bytes move: one port (`base`), RabbitMQ by pika (`rabbitmq`), and its in-memory twin (`memory`)."""
