"""Layers from which the engine builds its own decoder models; they compute packed tokens ([T, ...], no batch axis)."""
