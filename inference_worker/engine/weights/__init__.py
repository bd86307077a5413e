"""Reads model checkpoints (safetensors, quantised or not, and GGUF files), and loads their weights by tensor name."""
