"""Operation of Headrace: command line, launchers, containers, and configuration of RabbitMQ and the store."""
