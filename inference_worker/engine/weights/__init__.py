"""Checkpoint readers: safetensors and GGUF files, and the loading of weights by tensor name."""
