"""Operation of Headrace: the `headrace` command, launchers, set-up, containers, RabbitMQ and store configuration."""
