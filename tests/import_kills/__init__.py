"""Imports into a vector store over RabbitMQ while gateways, workers and the store are killed (`make chaos`)."""
