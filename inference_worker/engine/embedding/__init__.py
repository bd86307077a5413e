"""Encoder models: texts in, one vector of length one for each out, on the same queues as models that generate."""
