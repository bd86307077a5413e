"""Prices: exact, from a file, in versions."""
