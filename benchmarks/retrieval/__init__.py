"""Benchmark of the search in vector stores: how well it finds the passages that answer questions."""
