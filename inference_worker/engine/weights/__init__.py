"""Reads model checkpoints, safetensors and GGUF files, and loads their weights by tensor name."""
