"""Background responses over RabbitMQ while gateways and workers are killed in turn (`make chaos`)."""
