"""Prices per token: exact integers, loaded from a file, kept in versions."""
