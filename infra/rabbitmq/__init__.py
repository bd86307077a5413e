"""RabbitMQ as Headrace runs it: configuration, users, and a private node as a child process."""
