"""Layers of our own model definitions, on packed tokens ([T, ...], no batch dimension)."""
