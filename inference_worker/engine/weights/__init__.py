"""Readers of checkpoints: safetensors, GGUF, and weights by name."""
