"""Doing: turns a planned batch into tensors, runs the model, keeps the KV cache."""
