"""RabbitMQ for Headrace: configuration, users and permissions, and a private node as a child process."""
