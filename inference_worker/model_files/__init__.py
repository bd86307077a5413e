"""Readers of model folders and GGUF metadata; no torch."""
