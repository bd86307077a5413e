"""Embedding models: encoders that compute one normalised vector per text, fed by the same kind of queues."""
