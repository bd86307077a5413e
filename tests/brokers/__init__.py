"""The tests that need RabbitMQ, on the RabbitMQ versions of other Debian releases (`make test-brokers`)."""
