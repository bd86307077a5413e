"""Consumers that answer a job by calling outside. Empty until external providers land."""
