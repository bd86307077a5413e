"""Configures RabbitMQ for Headrace (users, permissions, queues), and runs a private node as a child process."""
